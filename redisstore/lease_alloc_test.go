//go:build !race

// Under the race detector a sync.Pool forgets at random.

package redisstore

import (
	"context"
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// A take from a lease allocates nothing: one charge through a limiter, or several.
func TestLeaseAllocatesNothing(t *testing.T) {
	srv := redistest.Start(t)
	s := openCached(t, srv.URL(), nil)
	limit := parseLimit(t, "1/day burst 10000 lease 10s")
	l, err := tidegate.New(s, *limit, &tidegate.Config{Rule: "one"})
	if err != nil {
		t.Fatal(err)
	}
	one := tidegate.Charge{Rule: "one", Key: "k", Limit: limit, Cost: 1}
	two := one
	two.Rule = "two"
	several := []tidegate.Charge{one, two}
	grow(t, s, two, 900)
	grow(t, s, one, 900)
	ctx := context.Background()
	if _, err := l.Allow(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	var space [2]tidegate.Decision
	if n := testing.AllocsPerRun(200, func() {
		if d, err := l.Allow(ctx, "k"); err != nil || d.Source != tidegate.SourceLease {
			t.Fatal(d, err)
		}
	}); n != 0 {
		t.Errorf("one: %v allocations", n)
	}
	if n := testing.AllocsPerRun(200, func() {
		if ds, err := s.Take(ctx, several, space[:0]); err != nil || ds[1].Source != tidegate.SourceLease {
			t.Fatal(ds, err)
		}
	}); n != 0 {
		t.Errorf("several: %v allocations", n)
	}
}
