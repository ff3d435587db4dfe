// Package sim decides requests of the past, or such as might come, in virtual time.
//
// A [Sim] is the engine of package rules over the store of package memstore, the same that serve live traffic, with a clock that
// stands still between requests and is moved by them. So it decides as they would have, a million times a second, and twice the
// same.
//
//	s, err := sim.New(set, nil)
//	…
//	d, err := s.Decide(at, attributes, 1)
//
// With replicas, each request is decided by one of several engines, each over a store of package resilience in virtual time, around one
// that all share and that is away in the outages of [Config]: what a bad day would be like.
//
// It imports the root package, internal/registry, rules, memstore and resilience.
package sim
