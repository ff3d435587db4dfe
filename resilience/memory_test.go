package resilience

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// What every answer writes of a key is in one cache line, and what a shard is locked by is in no other's.
func TestMemoryKeepsToCacheLines(t *testing.T) {
	const line = 64
	var m memory
	if size, written := unsafe.Sizeof(m), unsafe.Offsetof(m.limit); size != 2*line || written != line {
		t.Errorf("a memory has %d bytes, of which those after %d are written", size, written)
	}
	if size := unsafe.Sizeof(memoryShard{}); size != line {
		t.Errorf("a shard has %d bytes", size)
	}
	if size := unsafe.Sizeof(tally{}); size != line {
		t.Errorf("a tally has %d bytes", size)
	}
}

// Keys of one hash are found, gone through and removed one by one, wherever among each other they stand.
func TestKeysOfOneHash(t *testing.T) {
	names := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}}
	for mask := range 1 << len(names) {
		sh := memoryShard{hashes: map[uint64]*memory{}}
		other := &memory{rule: "other", key: "abc"}
		sh.put(2, other)
		for _, n := range names {
			sh.put(1, &memory{rule: n[0], key: n[1]})
		}
		left := 1
		for i, n := range names {
			if mask>>i&1 != 0 {
				sh.remove(1, sh.find(1, n[0], n[1]))
			} else {
				left++
			}
		}
		seen := 0
		for range sh.all {
			seen++
		}
		if sh.n != left || seen != left || sh.find(2, "other", "abc") != other || sh.find(1, "other", "abc") != nil {
			t.Errorf("removed %04b: %d and %d keys, want %d", mask, sh.n, seen, left)
		}
		for i, n := range names {
			m := sh.find(1, n[0], n[1])
			if removed := mask>>i&1 != 0; (m == nil) != removed || m != nil && (m.rule != n[0] || m.key != n[1]) {
				t.Errorf("removed %04b: of %q it finds %+v", mask, n, m)
			}
		}
		for m := range sh.all { // which goes on past what is removed meanwhile
			hash := uint64(1)
			if m == other {
				hash = 2
			}
			sh.remove(hash, m)
		}
		if sh.n != 0 || len(sh.hashes) != 0 {
			t.Errorf("removed %04b, and then all: %d keys, %d hashes", mask, sh.n, len(sh.hashes))
		}
	}
}

// ofOneHash returns a replica that hashes all names alike.
func ofOneHash(t *testing.T, sv *server, cfg Config) *replica {
	t.Helper()
	r := newReplica(t, sv, cfg)
	r.memories.bits = 0
	return r
}

// Keys of one hash are remembered, owe and are reset each for itself.
func TestOneHashForAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := ofOneHash(t, sv, Config{Replicas: 1, MaxKeys: memoryShards * 100})
		keys := []tidegate.Charge{
			charge(t, "a", "bc", "100/1000h", 10),
			charge(t, "ab", "c", "100/1000h", 20),
			charge(t, "abc", "", "100/1000h", 30),
			charge(t, "a", "b", "100/1000h", 40),
		}
		for _, c := range keys {
			r.take(c)
		}
		if err := r.Reset(context.Background(), keys[1:2]); err != nil {
			t.Fatal(err)
		}
		r.drop(fails("down"))
		for i, want := range []int64{100 - 10 - 10, 100 - 20, 100 - 30 - 30, 100 - 40 - 40} { // of the second nothing is known
			if d := r.take(keys[i]); d.Source != tidegate.SourceFallback || d.Remaining != want {
				t.Errorf("%q %q: %+v, want %d to remain", keys[i].Rule, keys[i].Key, d, want)
			}
		}
		if st := r.Status(); st.Debts != len(keys)+1 { // and the one by which the store was found to be away
			t.Errorf("%+v", st)
		}
		r.way.set(nil)
		time.Sleep(5 * time.Second)
		for i, want := range []int64{100 - 10 - 10, 100 - 20, 100 - 30 - 30, 100 - 40 - 40} {
			if got := sv.remains(t, keys[i]); got != want {
				t.Errorf("%q %q: %d remain in the store, want %d", keys[i].Rule, keys[i].Key, got, want)
			}
		}
		if st := r.Status(); st.Debts != 0 || st.Forgotten != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Keys of one hash are bounded as others are, those that owe something go last, and those that are as good as new are forgotten.
func TestOneHashIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 10
		r := ofOneHash(t, newServer(t), Config{Replicas: 1, MaxKeys: room * memoryShards, Local: memstore.New(nil)})
		shard := &r.memories.shards[0]
		for i := range 1000 {
			r.take(charge(t, "told", fmt.Sprint(i), "100/min", 1))
			shard.mu.Lock()
			n := shard.n
			shard.mu.Unlock()
			if n > room {
				t.Fatalf("%d keys", n)
			}
		}
		time.Sleep((memoryShards + 2) * time.Second)
		shard.mu.Lock()
		defer shard.mu.Unlock()
		if shard.n != 0 || len(shard.hashes) != 0 {
			t.Errorf("%d keys of %d hashes are left", shard.n, len(shard.hashes))
		}
	})
}

// What rules admitted is counted, whether the key is remembered or not, and a rule that admitted nothing is none that is told.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		synctest.Wait()
		counted := func(rule string) int64 {
			if tally := r.demand.of(rule); tally != nil {
				return tally.Load()
			}
			return -1
		}
		for range 3 {
			r.take(charge(t, "bucket", "k", "100/h", 2))
			r.take(charge(t, "bucket", "other", "100/h", 1))
			permit := charge(t, "permits", "k", "9 concurrent", 1)
			permit.ID = fmt.Sprint(time.Now().UnixNano())
			r.take(permit)
			time.Sleep(time.Nanosecond)
			r.take(charge(t, "unlimited", "k", "unlimited", 1))
			r.take(charge(t, "refused", "k", "1/h", 2))
			r.take(charge(t, "peeked", "k", "1/h", 0))
			r.take(charge(t, "bucket", "k", "100/h", 5), charge(t, "refused", "k", "1/h", 2)) // which charges neither
		}
		for rule, want := range map[string]int64{"bucket": 9, "permits": 3, "unlimited": -1, "refused": -1, "peeked": -1} {
			if got := counted(rule); got != want {
				t.Errorf("%s: %d, want %d", rule, got, want)
			}
		}
	})
}

// To remember what is remembered already allocates nothing.
func TestNoteAllocatesNothing(t *testing.T) {
	s, err := New(instant{}, &Config{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	charges := tenCharges(0)
	decisions, _ := instant{}.Take(context.Background(), charges, nil)
	if n := testing.AllocsPerRun(100, func() { s.note(charges, decisions, s.now()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
