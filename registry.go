package tidegate

import "context"

// A Registry is a [Store] that keeps, beside its buckets, a table of the replicas that use it: how many there are, and how
// much each admitted. It is what they divide the limits by when the store is away; see package resilience.
type Registry interface {
	Store
	// Beat writes what a replica has to say into the table of the second that the store's clock is in, and returns that of
	// the second before, which no beat changes any more. It is a write like a take, so that it fails where takes do.
	// What it costs the store depends on how many rules there are, not on how many replicas.
	Beat(ctx context.Context, b Beat) (Table, error)
}

// ReplicaTTL is for how many seconds a replica counts as there after its last beat.
const ReplicaTTL = 3

// A Beat is what a replica says of itself, once a second.
type Beat struct {
	// ID names the replica: 1 to 100 bytes, none of another's.
	ID string
	// Admitted is how many tokens the replica admitted in about the last second, by rule.
	// Only a replica's first beat within a second of the store's clock counts.
	Admitted map[string]int64
	// Marker is kept beside the data if there is none: a text that has never been kept before. A marker that is not the
	// former one says that the store lost what it held.
	Marker string
	// Since asks how many replicas have beaten at or after it, in µs of the store's clock.
	Since int64
	// Leave says that the replica goes: it is no longer counted.
	Leave bool
}

// A Table is what a beat is answered.
type Table struct {
	// Now is the store's clock, in µs since the Unix epoch. It is the clock by which buckets are decided.
	Now int64
	// Marker is what the first beat left here.
	Marker string
	// Counted says whether the beat was the replica's first of its second.
	Counted bool
	// Replicas is how many have beaten within [ReplicaTTL], this one included.
	Replicas int64
	// Reported is how many have at or after the beat's Since.
	Reported int64
	// Second is the number of the second that the rest of the table is of: the one before Now's.
	Second int64
	// Present says whether the replica has beaten in that second. If not, nothing of that second is its.
	Present bool
	// Beaten is how many replicas have.
	Beaten int64
	// Own and Total are the tokens that this replica and all together told of, by rule. A store that hides the names of
	// rules tells only of those that this process has named to it.
	Own, Total map[string]int64
}
