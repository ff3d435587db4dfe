// Package server answers takes over HTTP, for clients in any language.
//
// A request is one POST with a small JSON body, of any Content-Type, and its answer is JSON:
//
//	POST /v1/take     {"rule","key","cost","reserve"} or {"attributes":{…},"cost"}: charge, all or nothing
//	POST /v1/peek     {"rule","key"} or {"attributes":{…}}: whether a cost of 1 would pass, charging nothing
//	POST /v1/settle   {"id","cost"}: what a reservation turned out to cost; 0 cancels it
//	POST /v1/acquire  {"rule","key","cost"}: take a permit
//	POST /v1/renew    {"id"}: hold the permit for longer
//	POST /v1/release  {"id"}: give the permit back
//	POST /v1/reset    {"rule","key"}: make the bucket as good as new; needs the token
//	POST /v1/try      {"attributes":{…},"cost"}: which rules match, and what would be decided, charging nothing
//	POST /v1/outcome  {"rule","seconds","outcome"}: how a call of what is behind the rule went, for its breaker
//	GET  /v1/rules    the rules that are in place; PUT changes them, and needs the token
//	GET  /v1/keys     the hottest keys of this replica, or how one key is
//	GET  /v1/changes  what has changed: rules, and states of breakers
//	GET  /v1/state    who decides, and since when
//	GET  /v1/traffic  what was allowed and refused since the start, by rule
//	GET  /healthz     the process runs
//	GET  /readyz      takes are decided, and the server is not shutting down; it says if that is without the store
//	GET  /metrics     for Prometheus
//	GET  /            the page; see package page
//
// Take, peek and acquire answer the decision as [tidegate.Decision] marshals it: status 200 where it is allowed, and 429
// where it is not, with Retry-After in whole seconds, rounded up; there is none where the take can never pass. It is 503
// with Retry-After where no limit is reached, but the store is away and the rule's policy is to refuse then. A reservation
// and a permit have an "id" besides, which any replica of the service accepts. Where nothing is held there is no id: the
// take was refused, or nothing limits it.
//
// A key is a string for a rule with one key part, an array of strings in the rule's order for one with more, and absent
// for one with none. The cost is 1 where it is absent; 0 peeks; a negative one refunds and needs the token, which is sent
// as "Authorization: Bearer TOKEN". A member that is null is absent.
//
// Every other answer is {"error":"…"}: 400 says what is wrong with the request, 401 and 403 what is with the token, 404 that
// there is no such path, rule or id, 405 that the path wants another method, 409 that the rules cannot be changed here or were
// changed meanwhile, 413 that the body is too long, 422 what is wrong with rules, and 503 that no decision could be made, or
// that too many requests ran at once: try again after Retry-After. docs/api.md has a command and an answer for each path.
package server
