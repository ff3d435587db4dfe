package memstore

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// model is a table and the map that it must be like.
type model struct {
	t        *testing.T
	table    table
	is       map[id]modelBucket
	policies []*policy
}

type modelBucket struct {
	policy *policy
	state  algo.State
}

// manyPolicies are more than the number's part in entry.a has room for.
var manyPolicies = sync.OnceValue(func() []*policy {
	ps := make([]*policy, 600)
	for n := range ps {
		params, err := algo.Compile(tidegate.Limit{Rate: int64(1 + n), Per: time.Second})
		if err != nil {
			panic(err)
		}
		ps[n] = &policy{params: params}
	}
	return ps
})

func newModel(t *testing.T) *model {
	t.Helper()
	return &model{t: t, is: map[id]modelBucket{}, policies: manyPolicies()}
}

// slidingWindow has states that two numbers do not tell.
var slidingWindow = sync.OnceValues(func() (*algo.Params, error) {
	return algo.Compile(tidegate.Limit{Algorithm: tidegate.SlidingWindow, Rate: 1_000_000, Per: time.Minute})
})

// largeState returns a state that two numbers do not tell.
func largeState(t *testing.T, n int64) algo.State {
	t.Helper()
	p, err := slidingWindow()
	if err != nil {
		t.Fatal(err)
	}
	var st algo.State
	p.Load(&st, 1, algo.Window{})
	p.Take(&st, algo.Request{Cost: 1 + n}, 1, algo.Window{})
	if _, _, ok := st.Flat(); ok {
		t.Fatal("a sliding window is two numbers")
	}
	return st
}

func (m *model) put(i id, policy int, large bool, a, b int64) {
	m.t.Helper()
	st := algo.Flat(a, b)
	if large {
		st = largeState(m.t, a%1000)
	}
	pol := m.policies[policy%len(m.policies)]
	m.table.put(i, m.table.find(i), pol, &st)
	m.is[i] = modelBucket{pol, st}
}

func (m *model) remove(i id) {
	if slot := m.table.find(i); slot >= 0 {
		m.table.remove(slot)
	}
	delete(m.is, i)
}

// check compares every bucket, and counts what stands beside them.
func (m *model) check() {
	m.t.Helper()
	uses := map[*policy]int{}
	larges := 0
	for i, want := range m.is {
		slot := m.table.find(i)
		if slot < 0 || m.table.slots[slot].id != i {
			m.t.Fatalf("%x is lost", i)
		}
		if m.table.policy(slot) != want.policy || m.table.state(slot) != want.state {
			m.t.Fatalf("%x is another: %+v", i, m.table.state(slot))
		}
		uses[want.policy]++
		if _, _, ok := want.state.Flat(); !ok {
			larges++
		}
	}
	there := 0
	for k := range m.table.slots {
		if m.table.slots[k].a&live != 0 {
			there++
		}
	}
	if m.table.n != len(m.is) || there != len(m.is) {
		m.t.Fatalf("%d entries, %d told, want %d", there, m.table.n, len(m.is))
	}
	if n := len(m.table.states.list) - len(m.table.states.free); n != larges {
		m.t.Fatalf("%d states stand beside the entries, want %d", n, larges)
	}
	for _, u := range m.table.policies.list {
		if u.policy == nil != (u.uses == 0) || u.policy != nil && u.uses != uses[u.policy] {
			m.t.Fatalf("%d uses of a policy, want %d", u.uses, uses[u.policy])
		}
	}
	if n := len(m.table.policies.of); n != len(uses) {
		m.t.Fatalf("%d policies are numbered, want %d", n, len(uses))
	}
}

// The table does what a map does, also where many are at home in one slot, and around the end.
func TestTable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 30 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			m := newModel(t)
			most := 1 + r.IntN(1000)
			ids := make([]id, most)
			for n := range ids {
				ids[n] = id{r.Uint64(), r.Uint64()}
				if round%3 > 0 { // in a few places, the last among them
					ids[n].b = []uint64{0, 1 << 60, 1 << 63, 1<<63 + 1<<62, 1<<64 - 1}[r.IntN(1+round%5)]
				}
			}
			for op := range 5000 {
				i := ids[r.IntN(most)]
				switch shrinking := op/1000%2 > 0; {
				case r.IntN(4) == 0 != shrinking:
					m.remove(i)
				default:
					m.put(i, r.IntN(1+r.IntN(700)), r.IntN(5) == 0, r.Int64N(1<<53), r.Int64N(1<<53))
				}
				if r.IntN(500) == 0 {
					m.table.shrink()
				}
				if op%100 == 0 || most < 20 {
					m.check()
				}
			}
			for _, i := range ids {
				m.remove(i)
			}
			m.check()
			if m.table.shrink(); len(m.table.slots) != 0 {
				t.Error("an empty table keeps its slots")
			}
		})
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("put some, remove some, put others"))
	f.Add([]byte{0x00, 0x10, 0x20, 0x30, 0x41, 0x01, 0x11, 0x81})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newModel(t)
		for n, op := range ops { // two bits of what to do, three of the home, three of the id
			i := id{uint64(op & 7), uint64(op>>3&7) << 61}
			switch op >> 6 {
			case 0:
				m.remove(i)
			case 1:
				m.put(i, n, true, int64(n), 0)
			default:
				m.put(i, int(op), false, int64(n), int64(op)<<45)
			}
			if n%64 == 63 {
				m.table.shrink()
			}
			m.check()
		}
	})
}

// Little of the table stands empty: at most a quarter, in one that has grown and lost nothing.
func TestTableIsDense(t *testing.T) {
	m := newModel(t)
	for n := range 10_000 {
		m.put(id{uint64(n), rand.Uint64()}, 0, false, 1, 1)
		if n > 100 && m.table.n < len(m.table.slots)*3/4 {
			t.Fatalf("%d buckets in %d slots", m.table.n, len(m.table.slots))
		}
	}
	for n := range 10_000 {
		if n%10 > 0 {
			m.table.remove(m.slotOf(uint64(n)))
		}
	}
	if m.table.shrink(); m.table.n != 1000 || len(m.table.slots) > 1500 {
		t.Errorf("%d buckets in %d slots", m.table.n, len(m.table.slots))
	}
}

// slotOf returns the slot of the id that begins so.
func (m *model) slotOf(a uint64) int {
	for slot := range m.table.slots {
		if e := &m.table.slots[slot]; e.a&live != 0 && e.id.a == a {
			return slot
		}
	}
	return -1
}

// Every bucket of a shard may be under a limit of its own.
func TestTableOfManyPolicies(t *testing.T) {
	m := newModel(t)
	for range 2 {
		for n := range m.policies {
			m.put(id{uint64(n), rand.Uint64()}, n, n%7 == 0, int64(n), 1<<53-1)
		}
		m.check()
		for i := range m.is {
			m.remove(i)
		}
		m.check()
	}
}
