// Package registry keeps in memory the table of replicas that a [tidegate.Registry] has: who is there, and what each admitted in
// the present second and the one before. It is what redisstore's script of a beat keeps in Redis, for stores that live in one
// process: package sim's, and the servers of tests. It imports the root package alone.
package registry

import (
	"maps"

	"github.com/tidegate-go/tidegate"
)

// A Table is the table. The zero Table is empty. It is not safe for concurrent use.
type Table struct {
	marker  string
	last    map[string]int64 // replicas, with the µs of their last beats
	seconds [2]second        // even and odd ones
}

// second is what the replicas said in one second.
type second struct {
	number int64
	total  map[string]int64
	own    map[string]map[string]int64
}

// Beat writes what a replica has to say at a moment, in µs, and returns the table of the second before.
func (t *Table) Beat(b *tidegate.Beat, now int64) tidegate.Table {
	if t.marker == "" {
		t.marker = b.Marker
	}
	if t.last == nil {
		t.last = map[string]int64{}
	}
	for id, at := range t.last {
		// One in the future has beaten before the clock was set back; it beats again if it is there.
		if at < now-tidegate.ReplicaTTL*1_000_000 || at > now {
			delete(t.last, id)
		}
	}
	number := now / 1_000_000
	var answer tidegate.Table
	if b.Leave {
		delete(t.last, b.ID)
	} else {
		t.last[b.ID] = now
		answer.Counted = t.count(b, number)
	}
	answer.Now, answer.Marker, answer.Replicas, answer.Second = now, t.marker, int64(len(t.last)), number-1
	for _, at := range t.last {
		if at >= b.Since {
			answer.Reported++
		}
	}
	if s := &t.seconds[(number-1)&1]; s.own != nil && s.number == number-1 {
		answer.Beaten, answer.Total, answer.Own = int64(len(s.own)), s.total, s.own[b.ID]
		answer.Present = answer.Own != nil
	}
	return answer
}

// count adds what a replica admitted to the totals of a second, and reports whether it is the replica's first beat in it.
func (t *Table) count(b *tidegate.Beat, number int64) bool {
	s := &t.seconds[number&1]
	if s.own == nil || s.number != number { // new maps: who was answered with the former keeps them
		*s = second{number, map[string]int64{}, map[string]map[string]int64{}}
	}
	if s.own[b.ID] != nil {
		return false
	}
	own := make(map[string]int64, len(b.Admitted))
	maps.Copy(own, b.Admitted)
	s.own[b.ID] = own
	for rule, n := range own {
		s.total[rule] += n
	}
	return true
}

// SetMarker replaces the marker, as a store does that lost it and was left another.
func (t *Table) SetMarker(marker string) { t.marker = marker }

// Replicas is how many have beaten of late and not left.
func (t *Table) Replicas() int { return len(t.last) }

// Second returns how many replicas have beaten in a second, and of how many rules they told; it knows the last two.
func (t *Table) Second(number int64) (beaten, rules int, known bool) {
	s := &t.seconds[number&1]
	return len(s.own), len(s.total), s.own != nil && s.number == number
}
