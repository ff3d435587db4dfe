// Package guard links the breakers of rules to an engine: it refuses what a breaker keeps out, before the store is asked, and
// tightens the rules that are linked to one.
//
//	g := guard.New(&guard.Config{Share: store.Share}) // of a resilience.Store; without one, this process is the only one
//	defer g.Close()
//	err := g.Use(set)                                 // and again with each set that the engine swaps to
//	engine, err := rules.New(store, set, &rules.Config{Guard: g, Tracker: g})
//	…
//	g.Record("database", took, downstream.OutcomeOf(err)) // when a call of what is behind the rule has ended
//
// A rule with a breaker that is open refuses with a decision that is [tidegate.Decision.Unavailable]: HTTP's 503, with
// RetryAfter. A rule that is linked to it (tighten: {breaker: database, to: 20%}) keeps, while it is open or half-open, each of its keys to
// a local bucket of that part of this replica's share of the limit, and along the ramp to more and more; to 0% it refuses all, so
// that traffic of less importance is shed. The shared buckets and their limits stay as they are.
//
// Permits are not tightened, since nobody tells the guard when they are released; to 0% they are refused like all others. Rules in
// shadow, and those that a key is not enforced for, neither refuse nor tighten. The breaker of a rule in shadow counts, and its state
// is told, so that one sees what it would do; but it tightens no rule that is linked to it. Where a rule is enforced for a part of its
// keys, refusals of the others do not trip its breaker.
//
// It imports the root package, downstream, memstore, resilience and rules.
package guard
