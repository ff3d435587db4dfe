package remotestore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/lease"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

// leasing is a server's store that takes tokens ahead itself, as redisstore does.
type leasing struct {
	*memstore.Store
	*lease.Layer
}

func (s *leasing) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	return s.Layer.Take(ctx, charges, dst)
}

func (s *leasing) Reset(ctx context.Context, charges []tidegate.Charge) error {
	s.Layer.Reset(charges)
	return s.Store.Reset(ctx, charges)
}

func (s *leasing) Close() error { return nil }
func (s *leasing) Stats() any   { return nil }

// Several stores on one server, which would lease too, hold the bound on what all of them admit, in every interval between
// steps of a grid. A take counts in an interval if all of it, from the asking to the answer, lies within.
func TestLeaseBound(t *testing.T) {
	m := memory(t, nil)
	layer := lease.New(lease.Config{Take: m.Take})
	t.Cleanup(layer.Close)
	srv := serve(t, storeservice.Config{Store: &leasing{m, layer}})
	const (
		grid  = 2 * time.Millisecond
		steps = 300
	)
	limit := parseLimit(t, "20000/s burst 2000 lease 50ms")
	start := time.Now()
	step := func() int { return int(time.Since(start) / grid) }
	var mu sync.Mutex
	var within [steps][steps]int64 // tokens of takes asked in one step and answered in another
	var leased atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		s := open(t, srv.addr, nil)
		for range 2 {
			callers.Go(func() {
				for step() < steps {
					for range 100 + rand.IntN(400) {
						c := tidegate.Charge{Rule: "bound", Key: "k", Limit: limit, Cost: 1 + rand.Int64N(2)}
						asked := step()
						ds, err := s.Take(t.Context(), []tidegate.Charge{c}, nil)
						answered := step()
						if err != nil {
							t.Error(err)
							return
						}
						if !ds[0].Allowed {
							break
						}
						if ds[0].Source == tidegate.SourceLease {
							leased.Add(1)
						}
						if answered < steps {
							mu.Lock()
							within[asked][answered] += c.Cost
							mu.Unlock()
						}
					}
					<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
				}
			})
		}
	}
	callers.Wait()
	var answered [steps]int64 // tokens of takes asked at from or later, by the step of the answer
	for from := steps - 1; from >= 0; from-- {
		n := int64(0)
		for to := range steps {
			answered[to] += within[from][to]
			if to < from {
				continue
			}
			n += answered[to]
			length := time.Duration(to-from+1) * grid
			bound := limit.Burst + limit.Rate*int64(length+limit.Lease)/int64(limit.Per)
			if n > bound {
				t.Fatalf("%d were admitted in %v, at most %d are to be", n, length, bound)
			}
		}
	}
	if leased.Load() == 0 {
		t.Error("nothing was leased")
	}
	if taken := layer.Stats().Taken; taken != 0 {
		t.Errorf("the server took %d tokens ahead of stores that do so themselves", taken)
	}
}

// Leases save calls; without them each take asks, and the server may lease.
func TestLeasesAreSpentHere(t *testing.T) {
	m := memory(t, nil)
	layer := lease.New(lease.Config{Take: m.Take})
	t.Cleanup(layer.Close)
	store := &counting{Store: &leasing{m, layer}, fail: func(int64) error { return nil }}
	srv := serve(t, storeservice.Config{Store: store})
	c := newCharge(t, "k", "100000/s burst 100000 lease 10s", 1)
	s := open(t, srv.addr, nil)
	for range 1000 {
		mustTake(t, s, c)
	}
	if st, n := s.Stats(), store.takes.Load(); st.LeaseTakes == 0 || st.LeaseSpent > st.LeaseTaken || n+st.LeaseTakes != 1000 {
		t.Errorf("%+v after %d calls", st, n)
	}
	if err := s.Reset(t.Context(), []tidegate.Charge{c}); err != nil {
		t.Fatal(err)
	}
	if d := mustTake(t, s, c)[0]; d.Source == tidegate.SourceLease {
		t.Error("a lease outlived a reset")
	}
	before := store.takes.Load()
	never := open(t, srv.addr, &Config{NoLeases: true})
	for range 1000 {
		mustTake(t, never, c)
	}
	if st, n := never.Stats(), store.takes.Load()-before; st != (Stats{}) || n != 1000 || layer.Stats().Taken == 0 {
		t.Errorf("%+v after %d calls; the server: %+v", st, n, layer.Stats())
	}
}
