package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// Leases are taken from shards: what was charged to all of them is what was admitted and what was taken ahead and not spent,
// and never more than the limit.
func TestLeasesOfShards(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	c := newCharge(t, "r", "k", "8/h burst 8000 shards 8 lease 10s", 1)
	const callers, each = 8, 1500 // more than the burst
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if ds[0].Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	leases := s.Stats()
	t.Logf("%d allowed; leases: %+v", allowed.Load(), leases)
	if leases.LeaseTakes == 0 || leases.LeaseSpent != leases.LeaseTakes {
		t.Errorf("leases: %+v: want takes from them, of one token each", leases)
	}
	if n := inUse(t, s, c); n != allowed.Load()+leases.LeaseTaken-leases.LeaseSpent || n > 8000 {
		t.Errorf("%d are charged, %d were allowed, and %d taken ahead and not spent", n, allowed.Load(), leases.LeaseTaken-leases.LeaseSpent)
	}
	if allowed.Load() < 7000 {
		t.Errorf("%d of 8000 were allowed", allowed.Load())
	}
}
