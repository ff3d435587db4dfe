// Package due bounds the calls of a store by a timeout, for a fraction of what a [context.WithTimeout] of each costs.
//
// A service asks its store many thousand times a second, and nearly every answer is there long before the timeout. A
// timer for each call, and an entry in the list of its parent, are made then only to be taken back. A [Context] of this
// package has a deadline that its [Group] shares among the calls that begin within a 32nd of the timeout, and one timer
// for those of them that wait by [Ends]. To all who know no more than context.Context it is what context.WithDeadline would
// have made, which it makes of itself when one of them asks for it. See docs/decisions/0015-outage.md.
//
// It may import the standard library alone.
package due
