package httplimit

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// Config says how a [Middleware] works. The zero Config, like a nil one, is the documented default. Its functions are called
// concurrently.
type Config struct {
	// ClientIP says whom to believe about who the client is. Default: nobody; the client is the socket's address.
	// Its Logger defaults to Logger.
	ClientIP *clientip.Config
	// Attribute returns attributes of your own, such as the user that an outer handler has authenticated, and may
	// replace those of the middleware, which come after it; false where it has none. Default: none.
	Attribute func(r *http.Request, name string) (value string, ok bool)
	// Pattern returns the attribute "pattern": the route that the request takes. Around a mux, which has not chosen one
	// yet, ask it: func(r *http.Request) string { _, p := mux.Handler(r); return p }. Default: [http.Request.Pattern], which
	// is set for handlers in a mux.
	Pattern func(r *http.Request) string
	// Require are attributes without which a request is answered 400, since without its key's attribute a limit does not
	// apply. Default: none.
	Require []string

	// Cost returns what a request costs. One below 1 is not charged at all, like one that Skip names. Default: 1.
	Cost func(r *http.Request) int64
	// Skip returns whether a request passes without being decided on. Default: none does.
	Skip func(r *http.Request) bool
	// ChargePreflights charges the requests by which a browser asks whether it may send another one, of which the client
	// knows nothing. Default: they pass, and are not charged. Anybody can send one, so that a handler behind the middleware has to
	// do nothing but answer it: let a CORS handler do so outside, or a mux refuse the method; or charge them.
	ChargePreflights bool
	// Count says which requests are charged in the end. Default: [CountAll]. Others need a decider that is a [tidegate.Holder], as
	// limiters and engines are.
	Count Count
	// Failed says which statuses are failures to Count. Default: 400 and above.
	Failed func(status int) bool
	// SettleWithin is the longest that a request takes whose charge Count may give back: one that takes longer stays charged.
	// Over an engine whose rules have different costs, the store remembers each charge for so long; set it to little more than
	// the longest request then. Default: 1 h.
	SettleWithin time.Duration

	// Outcome is told how each request that passed was answered, and how long that took, when its response is complete: 500 where
	// the handler panicked. It is how a breaker for what is behind the handler learns; see package guard. Default: nobody is.
	Outcome func(r *http.Request, status int, took time.Duration)

	// Queue lets requests wait for their turn instead of refusing them. It needs a decider that is a [tidegate.Holder], as limiters
	// and engines are. Default: none waits.
	Queue Queue
	// RenewEvery is how often the permit of a request is renewed while it is served, under a concurrency limit. Default: a
	// third of the limit's TTL.
	RenewEvery time.Duration

	// Headers says in which syntax RateLimit-Policy and RateLimit are written. Default: [Draft11].
	Headers Syntax
	// Legacy adds X-RateLimit-Limit, -Remaining and -Reset. Default: [NoLegacy].
	Legacy Legacy
	// Jitter lengthens Retry-After by a random time up to so much, so that those refused together do not come back
	// together. It never shortens it. Default: 0.
	Jitter time.Duration
	// Status is what a refused request is answered, 400 to 599: 503 suits a limit that is not the client's fault.
	// Default: 429.
	Status int
	// Respond writes the answer to a refused request in place of the problem+json body. The headers of the limit, Retry-After
	// among them, are set before. Frameworks that do not use [http.ResponseWriter] leave it alone. Default: [Answer.Write].
	Respond func(w http.ResponseWriter, r *http.Request, a *Answer)

	// FailOpen lets requests pass when no decision could be made, since the store failed. It is for a store without a policy
	// of its own for that; one in package resilience decides by the rule's. Default: they are answered 503.
	FailOpen bool
	// NoContext leaves the decision out of the request's context, which spares a copy of the request. Default: it is there;
	// see [FromContext].
	NoContext bool
	// Logger is told when decisions begin to fail and when they are made again, and of misuse, once for each kind; never of
	// a request. Default: [slog.Default], as it is at the time; one with [slog.DiscardHandler] keeps it silent.
	Logger *slog.Logger
}

// Count says which requests are charged in the end.
type Count uint8

// What is counted. All are charged before they are served, so that those under way are in the count; what turns out not to
// be counted is given back.
const (
	// CountAll charges every request.
	CountAll Count = iota
	// CountFailures charges those that fail: a login with a wrong password, but not one with the right one.
	CountFailures
	// CountSuccesses charges those that do not fail.
	CountSuccesses
)

// Queue bounds how many requests wait for their turn, and for how long. Beyond either the answer is immediate. They wait in
// the handler, with their connection: keep both small.
//
// Turns come in order, across replicas, where what is waited for comes with time. For permits those of one limiter come in order
// within this process; under an engine, who asks when one is free has it.
type Queue struct {
	// Length is how many wait at once, over all keys. Default: 0, none.
	Length int
	// Wait is the longest that one waits. Required with Length.
	Wait time.Duration
}

// Syntax is one of the ways to write the fields RateLimit-Policy and RateLimit, which are still a draft.
type Syntax uint8

// The syntaxes.
const (
	// Draft11 is that of draft-ietf-httpapi-ratelimit-headers-11, like 08 to 10: "rule";q=100;w=60 and "rule";r=50;t=30.
	Draft11 Syntax = iota
	// NoFields leaves both out.
	NoFields
)

// Legacy is one of the meanings that X-RateLimit-Reset has in the world: clients that mix them up wait for fifty years, or
// not at all.
type Legacy uint8

// The meanings.
const (
	// NoLegacy leaves the X-RateLimit fields out.
	NoLegacy Legacy = iota
	// LegacySeconds tells the seconds from now, as Retry-After does.
	LegacySeconds
	// LegacyUnix tells the second since 1970, by this process's clock.
	LegacyUnix
)
