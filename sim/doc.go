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
// It imports the root package, rules, memstore and resilience.
package sim
