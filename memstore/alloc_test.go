//go:build !race

// Under the race detector a sync.Pool forgets at random: make test runs these without it.

package memstore

import (
	"context"
	"testing"

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
