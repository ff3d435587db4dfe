package resilience

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/registry"
	"github.com/tidegate-go/tidegate/memstore"
)

// steppedServer is a shared store in virtual time.
type steppedServer struct {
	*memstore.Store

	table registry.Table
	now   func() time.Time
	away  bool
	beats int
}

func (sv *steppedServer) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if sv.away {
		return dst, &tidegate.StoreError{Op: "take", Err: context.DeadlineExceeded}
	}
	return sv.Store.Take(ctx, charges, dst)
}

func (sv *steppedServer) Beat(_ context.Context, b tidegate.Beat) (tidegate.Table, error) {
	sv.beats++
	if sv.away {
		return tidegate.Table{}, &tidegate.StoreError{Op: "beat", Err: context.DeadlineExceeded}
	}
	return sv.table.Beat(&b, sv.now().UnixMicro()), nil
}

// A Store in virtual time does beside its callers what it is told to, when it is told, and starts no goroutine: no clock runs here.
func TestStepped(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	sv := &steppedServer{Store: memstore.New(&memstore.Config{Now: clock, SweepEvery: -1}), now: clock}
	s, err := NewStepped(sv, &Config{Replicas: 1}, clock, 1)
	if err != nil {
		t.Fatal(err)
	}
	steps := func(until time.Time) {
		for !s.Next().After(until) {
			now = s.Next()
			s.Step()
			before := sv.beats
			if s.Step(); sv.beats != before {
				t.Fatal("a step before it is due")
			}
		}
		now = until
	}
	steps(now.Add(10 * time.Second))
	if sv.beats < 10 || sv.beats > 12 {
		t.Errorf("%d beats in ten seconds", sv.beats)
	}
	c := charge(t, "daily", "k", "1000/day", 1)
	take := func() tidegate.Decision {
		ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ds[0]
	}
	if d := take(); d.Source != tidegate.SourceStore || d.Remaining != 999 {
		t.Errorf("%+v", d)
	}
	sv.away = true
	for range 40 {
		if d := take(); d.Source != tidegate.SourceFallback || !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
	opened := now
	if st := s.Status(); st.State != Fallback || st.Debts != 1 || !st.Since.Equal(opened) {
		t.Errorf("%+v", st)
	}
	if next := s.Next().Sub(now); next < probeEvery || next > probeEvery+probeJitter {
		t.Errorf("the first probe is due in %v", next)
	}
	steps(now.Add(5 * time.Second))
	sv.away = false
	steps(now.Add(time.Second))
	if st := s.Status(); st.State != Shared || st.Debts != 0 {
		t.Errorf("%+v", st)
	}
	if d := take(); d.Source != tidegate.SourceStore || d.Remaining != 1000-42 {
		t.Errorf("%+v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := sv.table.Replicas(); n != 0 {
		t.Errorf("%d replicas after it left", n)
	}
	before := sv.beats
	now = now.Add(time.Hour)
	if s.Step(); sv.beats != before {
		t.Error("a beat after Close")
	}
	if _, err := NewStepped(sv, nil, nil, 0); err == nil {
		t.Error("no clock is taken")
	}
	if _, err := NewStepped(nil, nil, clock, 0); err == nil {
		t.Error("no store is taken")
	}
}
