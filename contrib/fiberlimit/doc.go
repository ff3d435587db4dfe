// Package fiberlimit limits the requests of a fiber app (v3): it is package httplimit in the shape of fiber's middleware, with the
// same configuration and the same answers, to the header and the byte.
//
//	limits, err := fiberlimit.New(limiter, nil)
//	…
//	app.Use(limits)
//
// The attribute "pattern" is the route that will serve the request, such as /items/:id. A middleware of app.Use runs before fiber
// has chosen it, so that it is looked for among the routes, one by one, where a limit asks for it. The decision is in the
// context: httplimit.FromContext(c.Context()).
//
// Fiber is built on fasthttp, not on net/http. Functions of the configuration get a request that was made for them, without its
// body, whose context is c.Context(). A client that is gone does not end that context. A body that is streamed is sent after
// the handler has returned, and a permit is held until it is sent, or the client is gone; under fiber's adaptor to net/http, which
// tells of neither, until the handler has returned. [httplimit.Config.Respond] cannot be set.
//
// It imports the root package, httplimit, fiber and fasthttp, which makes it a module of its own.
package fiberlimit
