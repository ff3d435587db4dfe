// Package httplimit protects handlers of net/http: a middleware that keeps requests to a limit, and tells clients of it in
// the headers that the field has agreed on.
//
//	limiter, err := tidegate.New(memstore.New(nil), tidegate.Limit{Rate: 10, Per: time.Second, Burst: 20}, nil)
//	…
//	limits, err := httplimit.New(limiter, nil)
//	…
//	http.ListenAndServe(":8080", limits.Wrap(mux))
//
// A refused request is answered 429 with Retry-After and a problem+json body; one that passes reaches the handler with the
// writer that the server made, so that streams, WebSockets and [http.ResponseController] work as they do without it.
//
// # Attributes
//
// A limit's key, and what rules match, are attributes of the request:
//
//	ip           the client's address, of IPv6 the first of its /64: see package clientip
//	method       GET also for HEAD
//	host         in lower case, without the port
//	path         cleaned: see [CleanPath]
//	pattern      the route, where the mux has chosen it: see [Config.Pattern]
//	header.NAME  the first line of a header
//	query.NAME   the first value in the query
//	cookie.NAME  the first value of a cookie
//
// and what [Config.Attribute] adds. Whoever writes the header, query or cookie chooses its value: behind a key made of one
// there has to be something that checks it, or another limit by ip.
//
// # Order
//
// CORS goes around this middleware: it answers preflights, and its headers are then in refusals, too, without which a
// browser hides them from the page. It has to expose Retry-After and the RateLimit fields for the page to read them.
// Authentication goes around it where the user is part of the key.
//
// # Engines of rules
//
// All that a config asks for is done for all rules that match a request, in one take: a Count gives back what each of them charged,
// a rule of permits is held until the response is complete, and in the queue a request waits for the last of them. Deciders of
// one's own join as a [tidegate.Holder], and tell their limits as a [tidegate.Teller].
//
// A request that finds no permit is told to come again in a second, since nobody knows when one is given back; [Config.Jitter]
// spreads those who were told together. What a request holds is given back without holding up the end of its response; call
// [Middleware.Close] before the program ends.
//
// # Other frameworks
//
// Those of net/http take [Middleware.Wrap]. Others put a [Request] in and get a [Passage] out; package httplimittest holds
// every adapter to the same answers.
//
// Package httplimit imports the root package, clientip and the standard library.
package httplimit
