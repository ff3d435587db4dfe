package hotkeys

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// distinct is how many keys there are where there are very many.
func distinct() int {
	if raceDetector {
		return 250_000
	}
	return 5_000_000
}

// heap returns the bytes that are live.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Five million keys that come once each, and between them some that are hot, by a Zipf law: the hottest ten are told, in
// order, by traffic and by refusals, and memory stays what it was.
func TestMillionsOfKeys(t *testing.T) {
	for name, s := range map[string]float64{"steep": 1.4, "flat": 1.05} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 2))
			zipf := rand.NewZipf(rnd, s, 1, 1_000_000)
			h := open(t, Config{Window: time.Hour}) // so that nothing fades while the test runs
			traffic, refusals := map[string]int64{}, map[string]int64{}
			var used uint64
			keys := make([]byte, 0, 32)
			for n := range distinct() / 10 { // when the hot ones come, others are watched already
				h.Observe("hot-items", "before"+strconv.Itoa(n), 1, n%10 > 0)
			}
			for n := range distinct() * 9 / 10 {
				h.Observe("hot-items", string(strconv.AppendInt(append(keys[:0], "tail"...), int64(n), 10)), 1, n%10 > 0)
				z := zipf.Uint64()
				key := "item" + strconv.FormatUint(z, 10)
				allowed := (z+uint64(n))%3 > 0
				h.Observe("hot-items", key, 1, allowed)
				if z < 1000 { // the others are not among the hottest
					traffic[key]++
					if !allowed {
						refusals[key]++
					}
				}
				if n == 100_000 {
					used = heap()
				}
			}
			if now := heap(); now > used+1<<20 {
				t.Errorf("%d KiB are in use, and %d were after a fiftieth", now>>10, used>>10)
			}
			for by, truth := range []map[string]int64{ByTraffic: traffic, ByRefusals: refusals} {
				want := slices.SortedFunc(maps.Keys(truth), func(a, b string) int { return cmp.Compare(truth[b], truth[a]) })[:10]
				top := h.Top("hot-items", 10, By(by))
				got := keysOf(top)
				for i := range got {
					// Two keys whose counts are closer than an error apart may stand in either order.
					if e := top[i]; got[i] != want[i] && float64(truth[want[i]]-truth[got[i]]) > e.Error+top[0].Error {
						t.Errorf("seed %d, order %d: place %d is %s, want %s", seed, by, i+1, got[i], want[i])
					}
				}
				for _, e := range top {
					c := float64(truth[e.Key])
					if !slices.Contains(want, e.Key) || c > (e.Count+e.Error)*1.001 || c*1.001 < e.Count*0.99 {
						t.Errorf("seed %d, order %d: %+v, want one of %q; it came %v times", seed, by, e, want, c)
					}
				}
				t.Logf("order %d: the hottest %+v, the tenth %+v of %d", by, top[0], top[9], truth[top[9].Key])
			}
			runtime.KeepAlive(h)
		})
	}
}

// What comes once each stays in its cells: it displaces nothing that counts more, and makes nothing uncertain that was watched
// before.
func TestTailDisplacesNothing(t *testing.T) {
	h := open(t, Config{Window: time.Hour})
	const watched = 100 // fewer than there is room for in the parts
	for n := range watched {
		h.Observe("r", "watched"+strconv.Itoa(n), 20, true)
	}
	for n := range 30_000 { // some seven in each cell
		h.Observe("r", "tail"+strconv.Itoa(n), 1, true)
	}
	for _, e := range h.Top("r", watched, ByTraffic) {
		if !strings.HasPrefix(e.Key, "watched") || e.Count < 19.9 || e.Error != 0 {
			t.Errorf("%+v", e)
		}
	}
}

// What a key is counted away from home, where it is not watched, is in its error.
func TestStrangersAreInTheError(t *testing.T) {
	h := open(t, Config{Window: time.Hour, Keys: parts}) // one in each part
	h.Observe("r", "key", 1, true)
	s := h.ruleFor("r", 0).by[ByTraffic].Load()
	home := 0
	for i := range s.parts {
		if len(s.parts[i].ids) > 0 {
			home = i
		}
	}
	key, away := s.parts[home].ids[0], &s.parts[home^1]
	away.add(id{1, 1}, "", "heavy", 100, away.step, false)
	away.add(key, "", "key", 30, away.step, true) // as while home is locked
	for _, e := range h.Top("r", parts, ByTraffic) {
		if e.Key == "key" && e.Count < 1.1 && e.Count+e.Error > 30.9 {
			return
		}
	}
	t.Errorf("31 of key is not within the bounds of %+v", h.Top("r", parts, ByTraffic))
}

// Many goroutines at one key and at others: what parts that stand in for each other know of a key is added up.
func TestConcurrent(t *testing.T) {
	h := open(t, Config{Window: time.Hour})
	const goroutines = 16
	each := distinct() / 200
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for n := range each {
				h.Observe("r", "hot", 1, n%2 == 0)
				h.Observe("r", strconv.Itoa(g*each+n), 1, true)
				if n%1000 == 0 {
					h.Top("r", 3, ByTraffic)
				}
			}
		})
	}
	wg.Wait()
	want := float64(goroutines * each)
	e := h.Top("r", 10, ByTraffic)[0]
	if e.Key != "hot" || e.Count > want*1.001 || e.Count+e.Error < want*0.99 || e.Error > want/10 {
		t.Errorf("%+v, want hot with %v", e, want)
	}
	if got := h.Total("r", ByTraffic); got < 2*want*0.99 || got > 2*want*1.001 {
		t.Errorf("a total of %v, want %v", got, 2*want)
	}
}

// A key that is counted away from home, because its part is locked, is one key all the same.
func TestPartIsLocked(t *testing.T) {
	h := open(t, Config{Window: time.Hour})
	h.Observe("r", "key", 1, true)
	s := h.ruleFor("r", 0).by[ByTraffic].Load()
	for locked := range group - 1 {
		var held []*part
		for i := range s.parts {
			if p := &s.parts[i]; len(p.ids) > 0 {
				p.mu.Lock()
				held = append(held, p)
			}
		}
		if len(held) != locked+1 {
			t.Fatalf("%d parts have the key", len(held))
		}
		h.Observe("r", "key", 10, true)
		for _, p := range held {
			p.mu.Unlock()
		}
	}
	if got := h.Top("r", 5, ByTraffic); len(got) != 1 || got[0].Count < 30.9 || got[0].Error > 0.1 {
		t.Errorf("%+v", got)
	}
}

func TestAllocations(t *testing.T) {
	h := open(t, Config{})
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = "some key or other " + strconv.Itoa(i)
	}
	n := 0
	observe := func() {
		h.Observe("r", keys[n%len(keys)], 1, n%3 > 0)
		n++
	}
	for range 10 * len(keys) {
		observe()
	}
	if got := testing.AllocsPerRun(10*len(keys), observe); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
