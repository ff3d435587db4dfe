package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// serverClock is the time of a server, for stores whose own clocks differ from it.
type serverClock struct {
	now time.Time
}

// store returns a store whose own clock is off by so much.
func (c *serverClock) store(t *testing.T, srv *redistest.Server, off func(time.Time) time.Time, hooks ...redis.Hook) *Store {
	t.Helper()
	s := openStore(t, srv.URL(), &Config{Now: func() time.Time { return off(c.now) }, Hooks: hooks})
	s.scripts, s.inject = newScripts(true), func() int64 { return c.now.UnixMicro() }
	return s
}

func ahead(d time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time { return t.Add(d) }
}

func vienna(t *testing.T, text string) time.Time {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation(time.DateTime, text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// share lets two stores ask in turn, n times each and a step apart, and returns what each was allowed.
func (c *serverClock) share(t *testing.T, stores [2]*Store, charge tidegate.Charge, n int, step time.Duration) (allowed [2]int) {
	t.Helper()
	for i := range n {
		for j := range 2 {
			who := (i + j) % 2 // neither is always the first
			if mustTake(t, stores[who], charge)[0].Allowed {
				allowed[who]++
			}
		}
		c.now = c.now.Add(step)
	}
	return allowed
}

// TestEqualShares: two replicas whose own clocks differ by ten seconds get equal shares of a shared bucket. Whoever asks
// first gets what there is; so they ask twice, the second time each in the other's place.
func TestEqualShares(t *testing.T) {
	srv := redistest.Start(t)
	start := vienna(t, "2100-01-31 12:00:00")
	for _, v := range []struct {
		limit string
		least int64 // of 30 s in which both ask 20 times a second
		most  int64
	}{
		{"10/s burst 20", 20 + 299, 20 + 299}, // the last step is not waited for
		{"10/s burst 20 warmup 8s", 200, 300},
		{"10/s leaky-bucket queue 5", 6 + 299, 6 + 299},
		{"10/s fixed-window", 300, 300},
		{"10/s sliding-window", 200, 310},
		{"10/s sliding-window slices 5", 200, 310},
		{"10/s sliding-log", 200, 300},
		{"200/day tz Europe/Vienna fixed-window", 200, 200},
	} {
		t.Run(v.limit, func(t *testing.T) {
			c := &serverClock{now: start}
			fast, slow := c.store(t, srv, ahead(5*time.Second)), c.store(t, srv, ahead(-5*time.Second))
			one := c.share(t, [2]*Store{fast, slow}, newCharge(t, v.limit, "one", v.limit, 1), 600, 50*time.Millisecond)
			c.now = start
			two := c.share(t, [2]*Store{slow, fast}, newCharge(t, v.limit, "two", v.limit, 1), 600, 50*time.Millisecond)
			if a, b := one[0]+two[1], one[1]+two[0]; a != b {
				t.Errorf("%d and %d were allowed: not equal shares", a, b)
			}
			if total := int64(one[0] + one[1]); total < v.least || total > v.most {
				t.Errorf("%d were allowed in all; it should be %d to %d", total, v.least, v.most)
			}
		})
	}
}

// TestEqualSharesAtABoundary: where a calendar's window ends is the server's clock to say, also for a replica that has
// passed the boundary already and for one that has not yet.
func TestEqualSharesAtABoundary(t *testing.T) {
	srv := redistest.Start(t)
	for _, v := range []struct{ boundary, limit string }{
		{"2100-01-31 00:00:00", "100/day tz Europe/Vienna fixed-window"},
		{"2100-03-28 00:00:00", "100/day tz Europe/Vienna fixed-window"}, // a day of 23 hours begins
		{"2100-11-01 00:00:00", "100/day tz Europe/Vienna fixed-window"}, // one of 25 has ended
		{"2100-02-01 00:00:00", "100/week tz Europe/Vienna fixed-window"},
		{"2100-03-01 00:00:00", "100/month tz Europe/Vienna fixed-window"}, // no 29th in 2100
		{"2101-01-01 00:00:00", "100/year tz Europe/Vienna fixed-window"},
		{"2100-01-31 01:00:00", "100/day fixed-window"},
	} {
		t.Run(v.limit+" "+v.boundary, func(t *testing.T) {
			boundary := vienna(t, v.boundary)
			c := &serverClock{now: boundary.Add(-10 * time.Second)}
			var hook countingHook
			stores := [2]*Store{c.store(t, srv, ahead(5*time.Second), &hook), c.store(t, srv, ahead(-5*time.Second), &hook)}
			charge := newCharge(t, "boundary", v.boundary+v.limit, v.limit, 1)
			mustTake(t, stores[0], newCharge(t, "load", v.boundary+v.limit, v.limit, 1)) // loads the script
			mustTake(t, stores[1], peekOf(charge))
			for window, when := range []string{"before", "after"} {
				sent := hook.counted(func() {
					if got := c.share(t, stores, charge, 100, 100*time.Millisecond); got != [2]int{50, 50} {
						t.Errorf("%s the boundary %v were allowed", when, got)
					}
				})
				if sent != 200 {
					t.Errorf("%s the boundary 200 takes sent %d commands", when, sent)
				}
				if want := boundary.Add(time.Duration(window) * 10 * time.Second); !c.now.Equal(want) {
					t.Fatalf("it is %v", c.now)
				}
			}
			c.now = boundary.Add(-time.Second) // and back again: the spent window stays spent
			for i, s := range stores {
				if d := mustTake(t, s, charge)[0]; d.Allowed {
					t.Errorf("store %d, after a step back: %+v", i, d)
				}
			}
		})
	}
}

// TestClockFarOff: a caller whose clock is days off is asked once more, and decides as one whose clock is right.
func TestClockFarOff(t *testing.T) {
	srv := redistest.Start(t)
	c := &serverClock{now: vienna(t, "2100-02-28 23:00:00")}
	right := c.store(t, srv, ahead(0))
	for name, off := range map[string]func(time.Time) time.Time{
		"40 days ahead": ahead(40 * 24 * time.Hour), "10 years behind": ahead(-10 * 365 * 24 * time.Hour),
		"1970": func(time.Time) time.Time { return time.Unix(0, 0) }, "the zero time": func(time.Time) time.Time { return time.Time{} },
		"2900": func(time.Time) time.Time { return time.Unix(29_350_000_000, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var hook countingHook
			s := c.store(t, srv, off, &hook)
			mustTake(t, s, newCharge(t, "load", name, "10/s", 1))
			for _, limit := range []string{"10/day tz Europe/Vienna fixed-window", "10/week tz UTC fixed-window", "10/month tz America/St_Johns fixed-window"} {
				charge := newCharge(t, limit, name, limit, 3)
				mustTake(t, right, peekOf(charge))
				want := mustTake(t, right, charge)[0]
				var got tidegate.Decision
				if n := hook.counted(func() { got = mustTake(t, s, charge)[0] }); n != 2 {
					t.Errorf("%s: %d commands, not 2", limit, n)
				}
				want.Remaining -= 3
				if got != want {
					t.Errorf("%s: %+v, not %+v", limit, got, want)
				}
			}
			// Without a calendar, nobody asks.
			if n := hook.counted(func() { mustTake(t, s, newCharge(t, "bucket", name, "10/s", 1)) }); n != 1 {
				t.Errorf("a bucket: %d commands", n)
			}
			// Several calendars of one take.
			var charges []tidegate.Charge
			for _, limit := range []string{"10/day tz Europe/Vienna fixed-window", "10/month tz Asia/Shanghai fixed-window", "10/s", "10/year tz UTC fixed-window"} {
				charges = append(charges, newCharge(t, "several "+limit, name, limit, 1))
			}
			a := mustTake(t, right, charges...)
			b := mustTake(t, s, charges...)
			for i := range charges {
				a[i].Remaining--
				if limit := charges[i].Limit; limit.Algorithm == tidegate.TokenBucket {
					a[i].ResetAfter += 100 * time.Millisecond
				}
				if fmt.Sprint(a[i]) != fmt.Sprint(b[i]) {
					t.Errorf("charge %d: %+v, not %+v", i, b[i], a[i])
				}
			}
		})
	}
}
