// Package echolimit limits the requests of an echo instance (v5): it is package httplimit in the shape of echo's middleware, with
// the same configuration and the same answers, to the header and the byte.
//
//	limits, err := echolimit.New(limiter, nil)
//	…
//	e.Use(limits)
//
// The attribute "pattern" is echo's route, such as /items/:id; a request without a route does not have it, and neither has one in
// a middleware of [echo.Echo.Pre]. The decision is in the context of the request:
// httplimit.FromContext(c.Request().Context()).
//
// It imports the root package, httplimit and echo, which makes it a module of its own.
package echolimit
