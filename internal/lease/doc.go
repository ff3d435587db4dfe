// Package lease spends, in this process, tokens that were taken ahead from a store.
//
// A store that is a round trip away cannot decide a million takes a second of one key. A lease moves part of them here
// without giving up the limit: tokens leave the bucket before they are spent, those that are not spent lapse and are
// never returned, and a lease ends a lifetime (the limit's Lease) after the call that fetched it was sent, on the
// monotonic clock of this process. So a token that is spent at s left its bucket after s less the lifetime, and in every
// interval t at most B + ⌊L·(t + lifetime)/P⌋ are admitted, by however many processes, whichever of them are paused or
// killed. docs/decisions/0011-leases.md has the proof.
//
// A [Layer] stands before whatever is a round trip away: redisstore today. It is no [tidegate.Store] itself: of a store's
// methods it concerns Take and Reset, and its owner hands the others on.
//
// It may import the root package, internal/algo and the standard library.
package lease
