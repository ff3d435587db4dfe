// Package redisstore keeps the buckets in Redis or Valkey, shared by all replicas and decided on the server's clock.
//
// A take is one script and one round trip: the script reads the server's time, decides every charge, and writes. Scripts
// are called by their digest and sent whole once, when the server does not know them. Commands are never sent twice
// unless the server has said that it did not run them.
//
// A limit with a lease is decided here from tokens taken ahead, where there are enough: see internal/lease.
//
// Keys look like tidegate:{1f3a}rule/key; the part in braces is a hash of the key that makes the limits of one key
// share a slot of a cluster. A key leaves by itself when its bucket is as good as new.
//
// A limit with shards is kept in as many buckets, in slots of their own. A take goes to one of them, and to one other if
// that refuses; its decision tells of that shard, so that Limit and Remaining are a part of the whole's. A cost above the
// largest shard's capacity, B/K rounded up, never passes.
//
// It needs Redis 6.2 or Valkey 7.2, and of their commands those that docs/architecture.md lists.
package redisstore
