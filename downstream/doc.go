// Package downstream guards what lies behind the limits: a database, another service, anything that a limit alone does not save
// once it is in trouble.
//
// A [Breaker] is told how calls went. When too many fail or are slow, or too many takes are refused, it opens: calls are
// refused at once for a while, then a few are let through to try, and when these go well the rest comes back along a ramp.
//
//	b, err := downstream.New(&downstream.Config{FailureRatio: 0.5, SlowRatio: 0.8, SlowAfter: time.Second})
//	…
//	call, retryAfter := b.Allow()
//	if !call.OK() {
//		return unavailable(retryAfter) // HTTP: 503 with Retry-After
//	}
//	start := time.Now()
//	err := query(ctx)
//	call.Record(time.Since(start), downstream.OutcomeOf(err))
//
// While it is not closed, [Breaker.Factor] says how much of their limits is left to linked rules, those of less important
// traffic: each replica keeps them to a local bucket of that part of its share. The shared limit stays as it is, since
// another replica's downstream may be well.
//
// A breaker starts nothing: it changes state when it is asked or told something. docs/decisions/0027-downstream-breaker.md says
// why it is our own, and why it does not live in package resilience, whose breaker is for the store.
//
// It imports the standard library alone.
package downstream
