//go:build !race

// Under the race detector a sync.Pool forgets at random: make test runs these without it.

package memstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// allocs returns how many allocations a take makes, each charged by one charge and given back by another.
func allocs(t *testing.T, s *Store, charges ...[]tidegate.Charge) float64 {
	t.Helper()
	dst := make([]tidegate.Decision, 0, 8)
	ctx := context.Background()
	return testing.AllocsPerRun(200, func() {
		for _, cs := range charges {
			if _, err := s.Take(ctx, cs, dst); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A decision allocates nothing: neither an allowed one, nor a refused one, nor a peek.
func TestTakeAllocatesNothing(t *testing.T) {
	for name, text := range algorithms {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, Config{})
			l := limit(t, text)
			c := tidegate.Charge{Rule: "rule", Key: "key", Limit: l, Cost: 1}
			if l.Algorithm == tidegate.Concurrency {
				c.ID = "id"
			}
			takeCharge(t, s, c)
			back, peek, refused := c, c, c
			back.Cost, peek.Cost, refused.Cost = -1, 0, 20
			for what, charges := range map[string][][]tidegate.Charge{
				"allowed": {{c}, {back}}, "peek": {{peek}}, "refused": {{refused}},
			} {
				if l.Algorithm == tidegate.Concurrency && what == "allowed" {
					continue // an acquire remembers who it was
				}
				if n := allocs(t, s, charges...); n != 0 {
					t.Errorf("%s: %v allocations", what, n)
				}
			}
		})
	}
}

// The same limit can come by another pointer, from a limiter of its own or a charge that was made anew.
func TestTakeOfAnEqualLimitAllocatesNothing(t *testing.T) {
	for name, text := range algorithms {
		if text == algorithms["permits"] {
			continue // an acquire remembers who it was
		}
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, Config{})
			c := tidegate.Charge{Rule: "rule", Key: "key", Limit: limit(t, text), Cost: 1}
			takeCharge(t, s, c)
			takeCharge(t, s, c)
			c.Limit = limit(t, text)
			back, refused := c, c
			back.Cost, refused.Cost = -1, 20
			for what, charges := range map[string][][]tidegate.Charge{"allowed": {{c}, {back}}, "refused": {{refused}}} {
				if n := allocs(t, s, charges...); n != 0 {
					t.Errorf("%s: %v allocations", what, n)
				}
			}
		})
	}
}

// A take of several charges allocates nothing either, as long as its buckets keep no lists.
func TestTakeOfSeveralAllocatesNothing(t *testing.T) {
	s, _ := open(t, Config{})
	a := tidegate.Charge{Rule: "a", Key: "key", Limit: limit(t, "10/s burst 20"), Cost: 1}
	b := tidegate.Charge{Rule: "b", Key: "key", Limit: limit(t, "20/min fixed-window"), Cost: 1}
	c := tidegate.Charge{Rule: "c", Key: "key", Limit: limit(t, "20/day tz Europe/Vienna"), Cost: 1, Shadow: true}
	for _, x := range []tidegate.Charge{a, b, c} {
		takeCharge(t, s, x)
	}
	backA, backB, backC := a, b, c
	backA.Cost, backB.Cost, backC.Cost = -1, -1, -1
	tooMuch := b
	tooMuch.Cost = 20
	for what, charges := range map[string][][]tidegate.Charge{
		"allowed": {{a, b, c}, {backA, backB, backC}}, "refused": {{a, tooMuch, c}},
	} {
		if n := allocs(t, s, charges...); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// A limiter in front of the store adds none.
func TestLimiterAllocatesNothing(t *testing.T) {
	s, _ := open(t, Config{})
	l, err := tidegate.New(s, *limit(t, "10/s burst 20"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, key := range []string{"allowed", "refused"} {
		if _, err := l.AllowN(ctx, key, 20); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(200, func() {
		_, _ = l.AllowN(ctx, "allowed", -1)
		_, _ = l.Allow(ctx, "allowed")
		_, _ = l.Allow(ctx, "refused")
		_, _ = l.Peek(ctx, "refused")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Nor does the view of a key, be it asked often or seldom, and whatever else is asked of the bucket in between.
func TestViewAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	for _, text := range []string{"10/s burst 20", "10/day burst 20", "1000000/s burst 1000000", "10/s leaky-bucket queue 19", "20/min fixed-window"} {
		for _, gap := range []time.Duration{0, time.Microsecond, time.Second, 50 * time.Hour} {
			t.Run(fmt.Sprint(text, " ", gap), func(t *testing.T) {
				s, clock := open(t, Config{SweepEvery: -1})
				l, err := tidegate.New(s, *limit(t, text), nil)
				if err != nil {
					t.Fatal(err)
				}
				k, used := l.Key("key"), l.Key("used up")
				for _, x := range []*tidegate.KeyLimiter{k, used, k, k} {
					_, _ = x.AllowN(ctx, x.Burst()/2)
				}
				if n := testing.AllocsPerRun(1000, func() {
					clock.advance(gap)
					_, _ = k.Allow(ctx)
					_, _ = used.AllowN(ctx, 20)
					_, _ = k.AllowN(ctx, -1)
					_, _ = k.Allow(ctx)
					_, _ = l.Allow(ctx, "key")
					_, _ = k.Allow(ctx)
					_, _ = k.Peek(ctx)
				}); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		}
	}
}

// A bucket that changes more seldom than the word of a cell has room for is not moved into one each time.
func TestViewOfSeldomTakesAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	s, clock := open(t, Config{SweepEvery: -1})
	s.leastRoom = 0
	l, err := tidegate.New(s, *limit(t, "10/day burst 20"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := l.Key("key")
	for range 20 {
		_, _ = k.Allow(ctx)
	}
	clock.advance(50 * time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		clock.advance(3 * time.Hour)
		_, _ = k.Allow(ctx)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
