// Package key turns the names of buckets into strings that no two buckets share.
//
// A bucket is named by a rule and a key, and a key may have several parts. Joined by a separator that the parts may hold,
// ("a_b", "c") and ("a", "b_c") would become one bucket. Here every separator inside a part is escaped, so that the
// joined text can be taken apart again, and is therefore injective; only a text of more than [MaxLen] bytes is cut, to a
// cryptographic hash.
//
// It imports the standard library alone.
package key
