package memstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// twoClocks gives a store a monotonic clock and a wall clock that part ways.
func twoClocks(t *testing.T) (s *Store, mono, wall *still) {
	t.Helper()
	s, mono = open(t, Config{SweepEvery: -1})
	wall = &still{}
	wall.us.Store(mono.us.Load())
	s.wall = func() int64 { return wall.us.Load() }
	return s, mono, wall
}

// A calendar day ends when the wall clock says so, wherever that was set to.
func TestCalendarFollowsTheWallClock(t *testing.T) {
	s, mono, wall := twoClocks(t)
	l := limit(t, "5/day tz UTC")
	wall.advance(23 * time.Hour)
	if d := take(t, s, l, "key", 5); !d.Allowed || d.ResetAfter != time.Hour {
		t.Errorf("an hour before midnight on the wall: %+v", d)
	}
	mono.advance(2 * time.Hour)
	if d := take(t, s, l, "key", 1); d.Allowed || d.RetryAfter != time.Hour {
		t.Errorf("the monotonic clock alone: %+v", d)
	}
	wall.advance(time.Hour)
	if d := take(t, s, l, "key", 5); !d.Allowed || d.ResetAfter != 24*time.Hour {
		t.Errorf("midnight on the wall: %+v", d)
	}
	wall.advance(-2 * time.Hour) // set back into the day before
	if d := take(t, s, l, "key", 1); d.Allowed || d.RetryAfter > 24*time.Hour {
		t.Errorf("the wall clock was set back: %+v", d)
	}
}

// RB-101: the machine sleeps for an hour, which the monotonic clock does not count, and the wall clock jumps.
func TestWallClockMovesNoBucket(t *testing.T) {
	s, mono, wall := twoClocks(t)
	for name, text := range algorithms {
		if name == "calendar window" {
			continue
		}
		l := limit(t, text)
		before := take(t, s, l, name, 20)
		wall.advance(time.Hour)
		mono.advance(time.Second / 100)
		if d := take(t, s, l, name, 1); d.Allowed || d.RetryAfter > before.ResetAfter {
			t.Errorf("%s: the wall clock went forward: %+v", name, d)
		}
		wall.advance(-5 * time.Hour)
		d := take(t, s, l, name, 1)
		if d.Allowed || d.RetryAfter > before.ResetAfter {
			t.Errorf("%s: the wall clock went back: %+v", name, d)
		}
		mono.advance(d.RetryAfter) // one interval of time awake
		if d := take(t, s, l, name, 1); !d.Allowed {
			t.Errorf("%s: awake for as long as was said: %+v", name, d)
		}
	}
}

func TestDefaultClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		for range 3 {
			if now, err := s.Now(context.Background()); err != nil || !now.Equal(time.Now().Truncate(time.Microsecond)) {
				t.Errorf("now is %v instead of %v, error %v", now, time.Now(), err)
			}
			time.Sleep(time.Hour + time.Microsecond)
		}
		l := limit(t, "10/s burst 20")
		take(t, s, l, "key", 20)
		time.Sleep(100*time.Millisecond - time.Microsecond)
		if d := take(t, s, l, "key", 1); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Microsecond)
		if d := take(t, s, l, "key", 1); !d.Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// A coarse clock is at most as far behind as it may be, never ahead, and never goes back; so is what is decided by it.
func TestCoarseClock(t *testing.T) {
	for given, every := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 20 * time.Millisecond: 20 * time.Millisecond, time.Nanosecond: 100 * time.Microsecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(&Config{CoarseClock: given})
			defer s.Close()
			l := limit(t, "1000/s burst 50")
			const perSecond, burst = 1000, 50 // more than comes back from one look at the clock to the next
			start, before, admitted := time.Now(), s.now(), 0
			for n := range 3000 {
				now := s.now()
				if late := time.Duration(time.Now().UnixMicro()-now) * time.Microsecond; late < 0 || late > every || now < before {
					t.Fatalf("every %v: %v late, at %d after %d", every, late, now, before)
				}
				before = now
				if take(t, s, l, "key", 1).Allowed {
					admitted++
				}
				most := burst + int((time.Since(start)+every).Seconds()*perSecond)
				if least := burst + int((time.Since(start)-every).Seconds()*perSecond) - 1; admitted > most || n > 200 && admitted < least {
					t.Fatalf("every %v: %d were admitted in %v, want %d to %d", every, admitted, time.Since(start), least, most)
				}
				time.Sleep(time.Duration(n%7) * 97 * time.Microsecond)
				synctest.Wait()
			}
			// Whoever comes back when told may have to wait for as long as the clock may be behind, and no longer.
			take(t, s, l, "another", 50)
			time.Sleep(take(t, s, l, "another", 1).RetryAfter + every)
			synctest.Wait()
			if d := take(t, s, l, "another", 1); !d.Allowed {
				t.Errorf("every %v: %+v", every, d)
			}
			// The wall clock is as it was.
			c := limit(t, "5/day tz UTC")
			want := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)).Truncate(time.Microsecond)
			if d := take(t, s, c, "day", 5); d.ResetAfter-want > time.Microsecond || want-d.ResetAfter > time.Microsecond {
				t.Errorf("a day ends in %v instead of %v", d.ResetAfter, want)
			}
		})
	}
}

// A clock of one's own is read each time.
func TestCoarseClockOfOnesOwn(t *testing.T) {
	s, c := open(t, Config{CoarseClock: time.Hour})
	for range 3 {
		if s.now() != c.us.Load() {
			t.Errorf("%d instead of %d", s.now(), c.us.Load())
		}
		c.advance(time.Minute)
	}
}
