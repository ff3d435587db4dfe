package memstore

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// cell is the state of a plain bucket outside its shard's table, in one word, so that the view of one key takes without a
// lock: by a compare-and-swap of the word.
//
// A cell is open or closed, and changes from one to the other only while the bucket's shard is locked. While it is open, the
// entry in the table is bound to it and the word is the state. Whoever finds the bucket through the table closes the cell
// and takes the state back: from then on no take gets in, and the view goes through the table as well until it opens
// the cell, or another, again. What the word means is fixed when the cell is made, so that one who has read it before
// it was closed and finds it the same later, open again, has read the state.
type cell struct {
	word atomic.Uint64 // ticks since base, units in use, a bit for closed

	params  *algo.Params
	limit   *tidegate.Limit
	version int64
	base    int64  // tick
	room    int64  // for so many ticks after base
	shift   uint8  // of the ticks
	mask    uint64 // of the units, once the bit for closed is shifted out
}

const closed = 1

// leastRoom is how long, in µs, the word of a cell must have room for: a view makes no two cells in less. Buckets that take
// so long to fill that their units leave less have no cells. They are not those of which many a second pass.
const leastRoom = int64(10 * time.Minute / time.Microsecond)

// A take that another was quicker than pauses for so many turns of an empty loop, about a µs, and twice as many the next
// time: in that time the other makes twenty. Two that go on at once take turns, and each turn moves the word from one
// core to the other, which costs more than the take.
const leastPause, mostPause = 4096, 16384

// newCell returns a closed cell for a bucket under the policy, whose time is the tick base or later.
func newCell(pol *policy, base int64) *cell {
	units := unitsOf(pol)
	c := &cell{
		params: pol.params, limit: pol.source, version: pol.version,
		base: base, room: 1 << (63 - units), shift: uint8(1 + units), mask: 1<<units - 1,
	}
	c.word.Store(closed)
	return c
}

// unitsOf returns how many bits the units in use take.
func unitsOf(pol *policy) int { return bits.Len64(uint64(pol.params.Most())) }

// keeps reports whether the word can tell the state of a bucket under the policy.
func (c *cell) keeps(pol *policy, st algo.Plain) bool {
	return c.params == pol.params && uint64(st.Used) <= c.mask && st.Tick >= c.base && st.Tick-c.base < c.room
}

// state returns what an open word says.
func (c *cell) state(word uint64) algo.Plain {
	return algo.Plain{Used: int64(word >> 1 & c.mask), Tick: c.base + int64(word>>(c.shift&63))}
}

// wordOf returns the open word that says so.
func (c *cell) wordOf(st algo.Plain) uint64 {
	return uint64(st.Tick-c.base)<<(c.shift&63) | uint64(st.Used)<<1
}

// open opens the cell with a state that it keeps.
func (c *cell) open(st algo.Plain) { c.word.Store(c.wordOf(st)) }

// close closes the cell and returns the state.
func (c *cell) close() algo.Plain { return c.state(c.word.Or(closed)) }

// fits reports whether the word can tell a state that comes of one that it told.
func (c *cell) fits(st algo.Plain) bool { return st.Tick-c.base < c.room }

// take decides a charge that was not decided at the first try, since another was quicker if it was lost. It reports false
// where a decision takes the lock: the cell is closed, or there is more to it than [algo.Params.ChargePlain] can tell, or than
// the word can.
func (c *cell) take(s *Store, cost int64, lost bool) (algo.Charged, bool) {
	late := false // whether the clock was read once more for a state that is ahead of it
	pause := leastPause
	for {
		if lost {
			for range pause {
			}
			pause, late = min(2*pause, mostPause), false
		}
		now := s.now()
		word := c.word.Load()
		if word&closed != 0 {
			return algo.Charged{}, false
		}
		st, charged, ok := c.params.ChargePlain(c.state(word), cost, now)
		switch {
		case !ok && late:
			return charged, false
		case !ok: // another may have read the clock later, and been here before
			lost, late = false, true
		case !charged.OK:
			return charged, true
		case !c.fits(st):
			return charged, false
		case c.word.CompareAndSwap(word, c.wordOf(st)):
			return charged, true
		default:
			lost = true
		}
	}
}
