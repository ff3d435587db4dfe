package lease

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

func (l *Layer) cells() int {
	n := 0
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		n += len(sh.cells)
		sh.mu.Unlock()
	}
	return n
}

// However many keys there are, there is a bounded number of leases; what one that goes had left has lapsed.
func TestCellsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.layer.room = 4
	admitted := int64(0)
	for i := range 10_000 {
		c := charge(t, strconv.Itoa(i), flat, 1)
		for range 3 { // the second brings one for the third, of the fourth that is fetched for two are left
			w.takes(c)
			admitted++
		}
		if i%3 == 0 {
			w.takes(c)
			admitted++
		}
		w.advance(time.Millisecond)
	}
	if n := w.layer.cells(); n > 4*shardCount || n < shardCount || int64(n) != w.layer.count.Load() {
		t.Errorf("%d cells, %d counted", n, w.layer.count.Load())
	}
	w.advance(time.Second)
	w.layer.sweep()
	if n := w.layer.cells(); n != 0 || w.layer.count.Load() != 0 {
		t.Errorf("%d idle cells stay", n)
	}
	if s := w.layer.Stats(); s.Lapsed != s.Taken-s.Spent || s.Lapsed == 0 {
		t.Errorf("%+v", s)
	}
}

// Idle cells go before those that are not.
func TestEvictionSparesTheLiving(t *testing.T) {
	w := newWorld(t)
	w.layer.room = 8
	c := charge(t, "hot", "100000/s burst 1000 lease 50ms", 1)
	for i := range 3000 {
		w.takes(c)
		w.takes(charge(t, strconv.Itoa(i), flat, 1))
		w.advance(time.Millisecond)
	}
	// It is evicted now and then, when all of the few that are looked at have tokens, and comes back.
	if s := w.layer.Stats(); s.Takes < 2000 {
		t.Errorf("%d of 3000 takes of a hot key were leased: %+v", s.Takes, s)
	}
}

// One timer lets all leases go that are idle, and rests when there are none.
func TestIdleCellsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		for i := range 100 {
			s.warm(t, charge(t, strconv.Itoa(i), flat, 1), 5)
		}
		if n := s.layer.cells(); n != 100 {
			t.Fatalf("%d cells", n)
		}
		busy := charge(t, "0", flat, 1)
		for range 40 {
			time.Sleep(50 * time.Millisecond)
			if o := <-s.call(t.Context(), busy); o.err != nil {
				t.Fatal(o.err)
			}
		}
		if n := s.layer.cells(); n != 1 {
			t.Errorf("%d cells, want the busy one", n)
		}
		time.Sleep(10 * time.Second)
		if n := s.layer.cells(); n != 0 {
			t.Errorf("%d cells", n)
		}
		if o := <-s.call(t.Context(), busy); o.d.Source != tidegate.SourceStore {
			t.Errorf("%+v", o)
		}
		time.Sleep(10 * time.Second)
		if n := s.layer.cells(); n != 0 {
			t.Errorf("%d cells: the timer ran once", n)
		}
	})
}
