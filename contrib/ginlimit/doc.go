// Package ginlimit limits the requests of a gin engine: it is package httplimit in the shape of gin's middleware, with the same
// configuration and the same answers, to the header and the byte.
//
//	limits, err := ginlimit.New(limiter, nil)
//	…
//	engine.Use(limits)
//
// The attribute "pattern" is gin's route, such as /items/:id; a request without a route does not have it. The decision is in
// the context of the request: httplimit.FromContext(c.Request.Context()).
//
// It imports the root package, httplimit and gin, which makes it a module of its own.
package ginlimit
