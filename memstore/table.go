package memstore

import (
	"math/bits"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// table holds the buckets of a shard: a hash table with open addressing and linear probing, whose entries are the buckets
// themselves. Nothing in an entry is a pointer, so that the garbage collector does not look at millions of them; what an
// entry has no room for, the policy and the states of more than two numbers, stands beside the entries and is numbered.
//
// An entry moves when the table grows and when one before it leaves: a slot is good only until then, and for as long as the
// shard is locked.
type table struct {
	slots    []entry
	n        int // entries
	policies policyNumbers
	states   numbered[algo.State] // of the entries marked large
	cells    numbered[*cell]      // of the entries marked bound
}

// entry is a bucket in 32 bytes: half a cache line. Each of a and b is 53 bits of the state and, below them, marks and
// a part of the number of the policy: 18 bits in all, for a shard of a few thousand buckets. The zero entry is an empty slot.
type entry struct {
	id   id
	a, b uint64
}

const (
	// live marks, in entry.a, that there is a bucket; large and bound, that its state is the one, or in the cell, that is
	// numbered by what is above the marks.
	live, large, bound = 1 << 0, 1 << 1, 1 << 2

	marks      = 3 // bits
	aBits      = 8 // of the policy's number in entry.a, above the marks
	valueShift = 11
	markMask   = 1<<valueShift - 1

	// asked marks, in entry.b, that the bucket was asked for again since it was made, or last sampled to make room.
	asked = 1 << (valueShift - 1)
)

func (e *entry) number() int {
	return int(e.a>>marks&(1<<aBits-1) | e.b&(asked-1)<<aBits)
}

// mark sets the policy's number and the marks, and clears the state; asked stays.
func (e *entry) mark(number int, as uint64) {
	e.a = uint64(number)&(1<<aBits-1)<<marks | as
	e.b = uint64(number)>>aBits | e.b&asked
}

// ask marks the bucket as asked for, and writes only the first time.
func (e *entry) ask() {
	if e.b&asked == 0 {
		e.b |= asked
	}
}

// set sets the two numbers of the state.
func (e *entry) set(a, b int64) {
	e.a = e.a&markMask | uint64(a)<<valueShift
	e.b = e.b&markMask | uint64(b)<<valueShift
}

// small returns the two numbers of the state of a bucket that is not large.
func (e *entry) small() (a, b int64) { return int64(e.a >> valueShift), int64(e.b >> valueShift) }

// plain returns the same of a bucket that is a plain one.
func (e *entry) plain() algo.Plain {
	a, b := e.small()
	return algo.Plain{Used: a, Tick: b}
}

// home is where the search for an id begins. The shard is chosen by the other half of the id.
func (t *table) home(i id) int {
	hi, _ := bits.Mul64(i.b, uint64(len(t.slots)))
	return int(hi)
}

func (t *table) next(slot int) int {
	if slot++; slot < len(t.slots) {
		return slot
	}
	return 0
}

// find returns the slot of a bucket that is asked for, -1 if there is none. It takes the state back from the cell.
func (t *table) find(i id) int {
	slot := t.look(i)
	if slot >= 0 {
		t.slots[slot].ask()
		t.unbind(slot)
	}
	return slot
}

// look returns the slot of a bucket, -1 if there is none.
func (t *table) look(i id) int {
	if t.n == 0 {
		return -1
	}
	for slot := t.home(i); ; slot = t.next(slot) {
		switch e := &t.slots[slot]; {
		case e.a&live == 0:
			return -1
		case e.id == i:
			return slot
		}
	}
}

// policy returns the policy of the bucket in the slot.
func (t *table) policy(slot int) *policy { return t.policies.list[t.slots[slot].number()].policy }

// state returns the state of the bucket in the slot, which is not bound; the lists behind it are the bucket's.
func (t *table) state(slot int) algo.State {
	e := &t.slots[slot]
	if e.a&large != 0 {
		return t.states.list[e.a>>valueShift]
	}
	return algo.Flat(e.small())
}

// bind keeps the state of the bucket in the slot, neither bound nor large, in a cell that is closed.
func (t *table) bind(slot int, c *cell) {
	e := &t.slots[slot]
	c.open(e.plain())
	e.mark(e.number(), live|bound)
	e.set(int64(t.cells.add(c)), 0)
}

// unbind takes the state of the bucket in the slot back from its cell, if it is bound.
func (t *table) unbind(slot int) {
	e := &t.slots[slot]
	if e.a&bound == 0 {
		return
	}
	at := int(e.a >> valueShift)
	st := t.cells.list[at].close()
	t.cells.remove(at)
	e.ask() // a cell is opened by whoever asks again
	e.mark(e.number(), live)
	e.set(st.Used, st.Tick)
}

// put keeps a state, in the bucket's slot, which is not bound, or in a new one if that is -1.
func (t *table) put(i id, slot int, pol *policy, st *algo.State) {
	as, stateAt := uint64(live), -1
	number := t.policies.use(pol)
	if slot < 0 {
		slot = t.add(i)
	} else {
		e := &t.slots[slot]
		if e.a&large != 0 {
			stateAt = int(e.a >> valueShift)
		}
		t.policies.release(e.number())
	}
	a, b, ok := st.Flat()
	switch {
	case ok && stateAt >= 0:
		t.states.remove(stateAt)
	case ok:
	case stateAt >= 0:
		t.states.list[stateAt] = *st
		as, a, b = live|large, int64(stateAt), 0
	default:
		as, a, b = live|large, int64(t.states.add(*st)), 0
	}
	e := &t.slots[slot]
	e.mark(number, as)
	e.set(a, b)
}

// add returns an empty slot for a bucket that is not there.
func (t *table) add(i id) int {
	if (t.n+1)*10 > len(t.slots)*9 {
		// By a twelfth, so that little stands empty. An entry is moved about twelve times in its life, each of which takes a small
		// part of what the take takes that makes the bucket.
		t.resize(len(t.slots) + max(8, len(t.slots)/12))
	}
	slot := t.home(i)
	for t.slots[slot].a&live != 0 {
		slot = t.next(slot)
	}
	t.slots[slot].id = i
	t.n++
	return slot
}

// remove forgets the bucket in the slot, and closes the gap with those that were looked for past it.
func (t *table) remove(slot int) {
	t.unbind(slot)
	e := &t.slots[slot]
	t.policies.release(e.number())
	if e.a&large != 0 {
		t.states.remove(int(e.a >> valueShift))
	}
	gap := slot
	for at := t.next(gap); t.slots[at].a&live != 0; at = t.next(at) {
		// An entry may stand anywhere from its home on: it closes the gap unless its home lies behind the gap.
		home := t.home(t.slots[at].id)
		if behind := gap < home && home <= at || at < gap && (gap < home || home <= at); !behind {
			t.slots[gap] = t.slots[at]
			gap = at
		}
	}
	t.slots[gap] = entry{}
	t.n--
}

// shrink gives memory back if most of it stands empty.
func (t *table) shrink() {
	switch {
	case t.n == 0:
		*t = table{}
	case t.n < len(t.slots)/4:
		t.resize(t.n + t.n/4 + 8)
	}
}

// resize moves all entries to that many slots.
func (t *table) resize(slots int) {
	old := t.slots
	t.slots = make([]entry, slots)
	for k := range old {
		if old[k].a&live == 0 {
			continue
		}
		slot := t.home(old[k].id)
		for t.slots[slot].a&live != 0 {
			slot = t.next(slot)
		}
		t.slots[slot] = old[k]
	}
}

// close takes all states back from their cells.
func (t *table) close() {
	for slot := range t.slots {
		t.unbind(slot)
	}
	*t = table{}
}

// numbered is a list of what comes and goes, each under the number that it was given.
type numbered[T any] struct {
	list []T
	free []int // numbers that are not in use
}

func (l *numbered[T]) add(x T) int {
	if last := len(l.free) - 1; last >= 0 {
		n := l.free[last]
		l.free = l.free[:last]
		l.list[n] = x
		return n
	}
	l.list = append(l.list, x)
	return len(l.list) - 1
}

func (l *numbered[T]) remove(n int) {
	var none T
	l.list[n] = none
	l.free = append(l.free, n)
}

// policyNumbers numbers the policies that buckets of a shard are kept under, and forgets those that none is.
type policyNumbers struct {
	numbered[policyUse]

	of    map[*policy]int
	after int // the number that was used last
}

type policyUse struct {
	policy *policy
	uses   int
}

// use returns the number of a policy, for one more bucket.
func (ps *policyNumbers) use(p *policy) int {
	n := ps.after
	if n >= len(ps.list) || ps.list[n].policy != p {
		var ok bool
		if n, ok = ps.of[p]; !ok {
			if ps.of == nil {
				ps.of = make(map[*policy]int)
			}
			n = ps.add(policyUse{policy: p})
			ps.of[p] = n
		}
		ps.after = n
	}
	ps.list[n].uses++
	return n
}

// release says that one bucket less has the number's policy.
func (ps *policyNumbers) release(n int) {
	u := &ps.list[n]
	if u.uses--; u.uses == 0 {
		delete(ps.of, u.policy)
		ps.remove(n)
	}
}
