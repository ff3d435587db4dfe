// Package memstore is the embedded store: buckets in this process's memory.
//
// Decisions are those of every other store, to the token: the algorithms are the same. A take allocates nothing and
// holds a lock for well under a microsecond; through [tidegate.Limiter.Key] most hold none. The number of keys is bounded;
// what is as good as new is forgotten.
//
// A limit's lease and shards are ignored: in one process there is nobody to take tokens ahead from, and nothing to spread.
//
// It imports the root package, internal/algo and the standard library.
package memstore
