// Package resilience makes the failure of a shared store a non-event.
//
// A [Store] stands around a shared store, such as one of package redisstore, and a local one. As long as the shared store
// answers, it decides. When it fails, each rule's policy does: each replica keeps to its share of the limit, or all passes,
// or nothing; every decision says so in its Source. When it is back, each replica charges it with what it admitted alone.
//
//	shared, err := redisstore.Open("redis://localhost:6379", &redisstore.Config{Timeout: 50 * time.Millisecond})
//	store, err := resilience.New(shared, &resilience.Config{Replicas: 3})
//	api, err := tidegate.New(store, tidegate.Limit{Rate: 600, Per: time.Second, Burst: 100}, nil)
//
// docs/operations.md says what happens in each fault and how much can pass; docs/decisions/0015-outage.md why.
package resilience
