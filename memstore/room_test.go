package memstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// count returns how many buckets there really are.
func (s *Store) count() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += int64(sh.n)
		sh.mu.Unlock()
	}
	return n
}

// wantKeys checks the number of buckets, and that the store knows it.
func wantKeys(t *testing.T, s *Store, least, most int64) {
	t.Helper()
	if n, told := s.count(), s.Stats().Keys; n != told || n < least || n > most {
		t.Errorf("there are %d buckets, and Stats says %d: want %d to %d", n, told, least, most)
	}
}

func TestKeysAreBounded(t *testing.T) {
	for name, text := range algorithms {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, Config{MaxKeys: 100})
			l := limit(t, text)
			for n := range 100 {
				take(t, s, l, strconv.Itoa(n), 1)
			}
			wantKeys(t, s, 100, 100)
			if e := s.Stats().Evicted; e != 0 {
				t.Errorf("%d were evicted while there was room", e)
			}
			for n := range 900 {
				take(t, s, l, "more"+strconv.Itoa(n), 1)
				if k := s.Stats().Keys; k > 100 {
					t.Fatalf("%d buckets", k)
				}
			}
			wantKeys(t, s, 100, 100)
			if e := s.Stats().Evicted; e != 900 {
				t.Errorf("%d of 900 evictions are counted: each bucket was in use", e)
			}
		})
	}
}

// What goes is full or nearly so: whoever used up his bucket does not get a new one by asking under many other names.
func TestFullestGoes(t *testing.T) {
	for _, most := range []int{50, 1000, 5000} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			s, _ := open(t, Config{MaxKeys: most})
			l := limit(t, "10/h burst 20")
			const spent = 4 // fewer than are sampled
			for n := range spent {
				take(t, s, l, "spent"+strconv.Itoa(n), 20)
			}
			for n := range 5 * most {
				take(t, s, l, strconv.Itoa(n), 1)
			}
			renewed := 0
			for n := range spent {
				if take(t, s, l, "spent"+strconv.Itoa(n), 0).Allowed {
					renewed++
				}
			}
			if renewed > 0 {
				t.Errorf("%d of %d buckets that were used up are full again", renewed, spent)
			}
		})
	}
}

// The bound holds for buckets that are deep in debt too.
func TestDebtsAreBounded(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 20})
	l := limit(t, "1/s burst 1")
	for n := range 200 {
		for range 5 {
			takeCharge(t, s, tidegate.Charge{Rule: "rule", Key: strconv.Itoa(n), Limit: l, Cost: 1, MaxWait: time.Hour})
		}
	}
	wantKeys(t, s, 20, 20)
}

// A permit in flight is not room: to forget it is to let one more in.
func TestPermitsStay(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 200})
	permits, tokens := limit(t, "1 concurrent ttl 1h"), limit(t, "10/h burst 20")
	const jobs = 4 // fewer than are sampled
	for n := range jobs {
		take(t, s, permits, "job"+strconv.Itoa(n), 1)
	}
	for n := range 2000 {
		take(t, s, tokens, strconv.Itoa(n), 1)
	}
	forgotten := 0
	for n := range jobs {
		if take(t, s, permits, "job"+strconv.Itoa(n), 0).Allowed {
			forgotten++
		}
	}
	if forgotten > 0 {
		t.Errorf("%d of %d permits in flight were forgotten before buckets of which a twentieth was in use", forgotten, jobs)
	}
}

// A take of several charges adds several buckets, and forgets none of its own for them.
func TestTakeOfSeveralKeepsItsBuckets(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 10})
	l := limit(t, "10/h burst 20")
	for n := range 100 {
		charges := make([]tidegate.Charge, 8)
		for i := range charges {
			charges[i] = tidegate.Charge{Rule: strconv.Itoa(i), Key: strconv.Itoa(n), Limit: l, Cost: 1}
		}
		if _, err := s.Take(context.Background(), charges, nil); err != nil {
			t.Fatal(err)
		}
		for i, c := range charges {
			c.Cost = 0
			if d := takeCharge(t, s, c); d.Remaining != 19 {
				t.Fatalf("take %d: bucket %d is gone: %+v", n, i, d)
			}
		}
		wantKeys(t, s, 8, 10)
	}
}

// What is full again is nobody's loss, and is not counted as evicted.
func TestFullBucketsAreNotEvicted(t *testing.T) {
	s, c := open(t, Config{MaxKeys: 50, SweepEvery: -1})
	for name, text := range algorithms {
		l := limit(t, text)
		for n := range 7 {
			take(t, s, l, name+strconv.Itoa(n), 1)
		}
	}
	c.advance(48 * time.Hour)
	l := limit(t, "10/h burst 20")
	for n := range 21 {
		take(t, s, l, "new"+strconv.Itoa(n), 1)
	}
	if st := s.Stats(); st.Evicted > 2 || st.Keys != 50 { // once in a while a sample sees new ones alone
		t.Errorf("%+v", st)
	}
}

func TestReservationsAreBounded(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 50})
	l := limit(t, "1000/h burst 1000")
	for n := range 500 {
		takeCharge(t, s, tidegate.Charge{Rule: "rule", Key: "key", Limit: l, Cost: 1, ID: strconv.Itoa(n), Hold: time.Hour})
	}
	if n := len(s.reservations.byID); n > 50 {
		t.Errorf("%d reservations are remembered", n)
	}
	if err := s.Settle(context.Background(), "499", []tidegate.Charge{{Rule: "rule", Key: "key", Limit: l}}, 0); err != nil {
		t.Errorf("the newest reservation: %v", err)
	}
}

func TestBoundUnderConcurrency(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 100})
	l := limit(t, "10/h burst 20")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 500 {
				take(t, s, l, fmt.Sprintf("%d-%d", g, n), 1)
			}
		})
	}
	wg.Wait()
	wantKeys(t, s, 90, 100)
}
