package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// still is a clock of a store and of a layer, which stands still unless it is moved.
type still struct{ ns atomic.Int64 }

func (c *still) now() int64              { return c.ns.Load() }
func (c *still) wall() time.Time         { return time.Unix(4_000_000_000, c.ns.Load()) }
func (c *still) advance(d time.Duration) { c.ns.Add(int64(d)) }

// world is a layer before a store in memory, both by one clock, and what was asked of the store.
type world struct {
	*still
	tb    testing.TB
	store *memstore.Store
	layer *Layer
	asked [][]tidegate.Charge
	take  func(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error) // instead of the store's
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{still: &still{}, tb: tb}
	w.store = memstore.New(&memstore.Config{Now: w.wall, SweepEvery: -1})
	w.take = w.store.Take
	w.layer = New(Config{Now: w.now, Take: func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
		w.asked = append(w.asked, slices.Clone(charges))
		return w.take(ctx, charges, dst)
	}})
	tb.Cleanup(func() {
		w.layer.Close()
		_ = w.store.Close()
	})
	return w
}

func limit(tb testing.TB, text string) *tidegate.Limit {
	tb.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	return &l
}

// charge returns a charge of a cost on the bucket of a key; the same text is the same limit.
func charge(tb testing.TB, key, text string, cost int64) tidegate.Charge {
	tb.Helper()
	return tidegate.Charge{Rule: "rule", Key: key, Limit: limit(tb, text), Cost: cost}
}

// takes lets the layer decide the charges together.
func (w *world) takes(charges ...tidegate.Charge) []tidegate.Decision {
	w.tb.Helper()
	ds, err := w.layer.Take(context.Background(), charges, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return ds
}

// grow takes until a lease has so many tokens left.
func (w *world) grow(c tidegate.Charge, left int64) {
	w.tb.Helper()
	for range 1000 {
		if d := w.takes(c)[0]; d.Source == tidegate.SourceLease && d.Remaining == left {
			return
		}
	}
	w.tb.Fatalf("no lease has %d tokens left", left)
}

// last returns what was asked of the store last.
func (w *world) last() []tidegate.Charge { return w.asked[len(w.asked)-1] }

// balance holds what the bucket was charged to what takes were admitted, and to what was taken ahead and not spent.
func (w *world) balance(c tidegate.Charge, admitted int64) {
	w.tb.Helper()
	peek := tidegate.Charge{Rule: c.Rule, Key: c.Key, Limit: c.Limit, Version: c.Version}
	ds, err := w.store.Take(context.Background(), []tidegate.Charge{peek}, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	s := w.layer.Stats()
	if charged := c.Limit.Capacity() - ds[0].Remaining; charged != admitted+s.Taken-s.Spent {
		w.tb.Errorf("%d were charged, %d admitted, and %d of %d taken ahead not spent", charged, admitted, s.Taken-s.Spent, s.Taken)
	}
	if s.Lapsed > s.Taken-s.Spent {
		w.tb.Errorf("%d have lapsed of %d", s.Lapsed, s.Taken-s.Spent)
	}
}
