package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// grow takes until the store has so many tokens of a lease left or more, and returns how many takes that were.
func grow(tb testing.TB, s *Store, c tidegate.Charge, left int64) (admitted int64) {
	tb.Helper()
	for admitted < c.Limit.Burst {
		d := mustTake(tb, s, c)[0]
		if !d.Allowed {
			break
		}
		admitted++
		if d.Source == tidegate.SourceLease && d.Remaining >= left {
			return admitted
		}
	}
	tb.Fatalf("no lease of %d tokens", left)
	return 0
}

// TestLeaseBound: several stores on one server hold the bound on what all of them admit, in every interval between steps
// of a grid. A take counts in an interval if all of it, from the asking to the answer, lies within.
func TestLeaseBound(t *testing.T) {
	srv := redistest.Start(t)
	const (
		grid  = 2 * time.Millisecond
		steps = 400
	)
	limit := parseLimit(t, "20000/s burst 2000 lease 50ms")
	start := time.Now()
	step := func() int { return int(time.Since(start) / grid) }
	var mu sync.Mutex
	var within [steps][steps]int64 // tokens of takes asked in one step and answered in another
	var leased atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		s := openCached(t, srv.URL(), nil)
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
	worst := int64(-1) << 62
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
			if worst = max(worst, n-bound); n > bound {
				t.Fatalf("%d were admitted in %v, at most %d are to be", n, length, bound)
			}
		}
	}
	if leased.Load() == 0 {
		t.Error("nothing was leased")
	}
	t.Logf("%d takes were leased; the worst interval is %d below the bound", leased.Load(), -worst)
}

// TestLeaseAccounts: what the server was charged is what the stores admitted, and what they took ahead and did not spend.
func TestLeaseAccounts(t *testing.T) {
	srv := redistest.Start(t)
	limit := parseLimit(t, "10/day burst 20000 lease 20ms")
	c := tidegate.Charge{Rule: "accounts", Key: "k", Limit: limit, Cost: 1}
	other := c
	other.Rule = "another"
	var stores []*Store
	var admitted, ofOther atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		s := openCached(t, srv.URL(), nil)
		stores = append(stores, s)
		for range 3 {
			callers.Go(func() {
				for range 1500 {
					charges := []tidegate.Charge{c}
					charges[0].Cost = 1 + rand.Int64N(3)
					if rand.IntN(4) == 0 {
						charges = append(charges, other)
					}
					ctx := context.Background()
					ds, err := s.Take(ctx, charges, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if tidegate.Combine(charges, ds).Allowed {
						admitted.Add(charges[0].Cost)
						ofOther.Add(int64(len(charges) - 1))
					}
					if rand.IntN(300) == 0 {
						<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
					}
				}
			})
		}
	}
	callers.Wait()
	var sum Stats
	for _, s := range stores {
		st := s.Stats()
		sum.LeaseTaken, sum.LeaseSpent, sum.LeaseTakes = sum.LeaseTaken+st.LeaseTaken, sum.LeaseSpent+st.LeaseSpent, sum.LeaseTakes+st.LeaseTakes
	}
	charged := 2*limit.Burst - remaining(t, stores[0], c) - remaining(t, stores[1], other)
	if want := admitted.Load() + ofOther.Load() + sum.LeaseTaken - sum.LeaseSpent; charged != want {
		t.Errorf("%d were charged; %d and %d admitted, %+v: want %d", charged, admitted.Load(), ofOther.Load(), sum, want)
	}
	if sum.LeaseTakes == 0 || admitted.Load()+ofOther.Load() > 2*limit.Burst {
		t.Errorf("%d and %d admitted: %+v", admitted.Load(), ofOther.Load(), sum)
	}
}

// A lease asks the server nothing, and ends with a reset.
func TestLeaseAndReset(t *testing.T) {
	srv := redistest.Start(t)
	var sent countingHook
	s := openCached(t, srv.URL(), &Config{Hooks: []redis.Hook{&sent}})
	c := newCharge(t, "reset", "k", "1/day burst 1000 lease 10s", 1)
	grow(t, s, c, 50)
	if n := sent.counted(func() {
		for range 50 {
			if d := mustTake(t, s, c)[0]; !d.Allowed || d.Source != tidegate.SourceLease || d.Limit != 1000 {
				t.Fatalf("%+v", d)
			}
		}
	}); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
	grow(t, s, c, 50)
	if err := s.Reset(context.Background(), []tidegate.Charge{c}); err != nil {
		t.Fatal(err)
	}
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Source != tidegate.SourceStore || d.Remaining != 999 {
		t.Errorf("after a reset: %+v", d)
	}
	if st := s.Stats(); st.LeaseLapsed < 50 {
		t.Errorf("%+v", st)
	}
}

// When the server is gone, callers who wait for one to fetch learn it from that one's call.
func TestLeaseOfServerThatIsGone(t *testing.T) {
	srv := redistest.Start(t)
	s := openCached(t, srv.URL(), &Config{Timeout: 200 * time.Millisecond})
	c := newCharge(t, "gone", "k", "1/day burst 1000 lease 10s", 1)
	grow(t, s, c, 50)
	srv.Pause()
	for range 1000 { // what is leased is spent without the server
		st := s.Stats()
		if st.LeaseTaken == st.LeaseSpent+st.LeaseLapsed {
			break
		}
		if d := mustTake(t, s, c)[0]; !d.Allowed || d.Source != tidegate.SourceLease {
			t.Fatalf("%+v", d)
		}
	}
	start := time.Now()
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if _, err := s.Take(t.Context(), []tidegate.Charge{c}, nil); !errors.Is(err, tidegate.ErrStore) {
				t.Errorf("%v, want a failure of the store", err)
			}
		})
	}
	callers.Wait()
	if took := time.Since(start); took > 2*s.cfg.Timeout+room() {
		t.Errorf("it took %v", took)
	}
	srv.Resume()
	eventually(t, 10*time.Second, "the server answers again", func() error {
		_, err := s.Take(t.Context(), []tidegate.Charge{c}, nil)
		return err
	})
}

// A caller whose context ends does not wait for what it has asked to be fetched, which serves the others.
func TestLeaseOfCallerWhoLeaves(t *testing.T) {
	srv := redistest.Start(t)
	s := openCached(t, srv.URL(), &Config{Timeout: 10 * time.Second})
	c := newCharge(t, "leaves", "k", "1/day burst 1000 lease 10s", 1)
	admitted := grow(t, s, c, 50)
	for range 1000 { // until the lease is used up
		if st := s.Stats(); st.LeaseTaken == st.LeaseSpent+st.LeaseLapsed {
			break
		}
		mustTake(t, s, c)
		admitted++
	}
	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Take(ctx, []tidegate.Charge{c}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	srv.Resume()
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Source != tidegate.SourceLease {
		t.Errorf("%+v: want what was fetched", d)
	}
	admitted++
	st := s.Stats()
	if charged := 1000 - remaining(t, s, c); charged != admitted+st.LeaseTaken-st.LeaseSpent {
		t.Errorf("%d were charged, %d admitted: %+v", charged, admitted, st)
	}
}

// In a cluster, takes over several slots are leased as well.
func TestLeaseAcrossSlots(t *testing.T) {
	clu := redistest.StartCluster(t)
	s := openCached(t, "redis+cluster://"+clu.Addrs[0], nil)
	charges := []tidegate.Charge{
		newCharge(t, "user", "a", "1/day burst 1000 lease 10s", 1),
		newCharge(t, "tenant", "b", "1/day burst 1000 lease 10s", 1),
		newCharge(t, "global", "", "1/day burst 1000 lease 10s", 1),
	}
	for range 200 {
		if ds := mustTake(t, s, charges...); !tidegate.Combine(charges, ds).Allowed {
			t.Fatalf("%+v", ds)
		}
	}
	st, charged := s.Stats(), int64(0)
	for _, c := range charges {
		charged += 1000 - remaining(t, s, c)
	}
	if st.LeaseTakes < 150 || charged != 3*200+st.LeaseTaken-st.LeaseSpent {
		t.Errorf("%d were charged: %+v", charged, st)
	}
}
