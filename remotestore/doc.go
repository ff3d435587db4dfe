// Package remotestore asks a central Tidegate over gRPC: a [tidegate.Store] whose buckets are those of a `tidegate serve
// --grpc`, so that services share limits without a connection, a password or a script of theirs in Redis. The other end is
// package storeservice.
//
//	store, err := remotestore.Open("tidegate.internal:8081", &remotestore.Config{TLS: &tls.Config{}, Token: token})
//	api, err := tidegate.New(store, tidegate.Limit{Rate: 600, Per: time.Second, Burst: 100}, nil)
//
// It asks as package redisstore does. A take that comes alone leaves at once, in a call of its own; takes that come while the
// bucket's call is under way wait for it, and leave together as the next one. Limits with a lease are decided in this
// process where tokens were taken ahead. A call is never made again if it may have run, and what the server did not answer
// in time is a [tidegate.StoreError]: wrap the store by package resilience to decide by your share of the limit then.
//
// The server decides by its own clock, and by its own plan while its store is away; such a decision says so in its Source.
//
// It may import the root package, internal/algo, internal/lease, its own packages, and gRPC.
package remotestore
