package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// TestEverythingAtOnce lets callers take one key and several, leave, reset and change limits while cells come and go, and
// the store fail now and then. No token is spent twice: what the buckets were charged is what was admitted and what was
// taken ahead and not spent.
func TestEverythingAtOnce(t *testing.T) {
	start := time.Now()
	store := memstore.New(&memstore.Config{Now: func() time.Time { return time.Unix(4_000_000_000, 0) }, SweepEvery: -1})
	defer store.Close()
	var charged atomic.Int64 // by takes that the store admitted
	broken := &tidegate.StoreError{Op: "take", Err: errors.New("now and then")}
	layer := New(Config{
		MaxCells: 2 * shardCount,
		Take: func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			if rand.IntN(50) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			if rand.IntN(50) == 0 {
				return dst, broken
			}
			n := len(dst)
			dst, err := store.Take(ctx, charges, dst)
			if err == nil && allowed(charges, dst[n:]) {
				for i := range charges {
					if dst[n+i].Allowed && charges[i].Cost > 0 {
						charged.Add(charges[i].Cost)
					}
				}
			}
			return dst, err
		},
	})
	limits := [...]*tidegate.Limit{
		limit(t, "100/day burst 100000 lease 2ms"), limit(t, "100/day burst 200000 lease 1ms"), limit(t, "100/day burst 10000 lease 5ms"),
	}
	var admitted, left atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			ctx := context.Background()
			for time.Since(start) < 300*time.Millisecond {
				n := 1 + rand.IntN(3)/2*rand.IntN(3)
				charges := make([]tidegate.Charge, n)
				for i := range charges {
					charges[i] = tidegate.Charge{Rule: "rule", Key: strconv.Itoa(min(rand.IntN(4), rand.IntN(4000))), Limit: limits[0], Cost: 1 + rand.Int64N(3)}
					charges[i].Shadow = rand.IntN(10) == 0
					switch rand.IntN(200) {
					case 0:
						charges[i].Version, charges[i].Limit = time.Since(start).Microseconds(), limits[rand.IntN(3)]
					case 1:
						layer.Reset(charges[i : i+1])
					case 2:
						charges[i].Cost = 0
					}
				}
				bounded, cancel := context.WithCancel(ctx)
				if rand.IntN(20) == 0 {
					bounded, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(100))*time.Microsecond)
				}
				ds, err := layer.Take(bounded, charges, nil)
				cancel()
				switch {
				case err == nil && allowed(charges, ds):
					for i := range charges {
						if ds[i].Allowed {
							admitted.Add(charges[i].Cost)
						}
					}
				case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
					left.Add(1)
				case err != nil && !errors.Is(err, tidegate.ErrStore):
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	layer.Close()
	s := layer.Stats()
	for range 10_000 { // until those have landed whose caller has left
		if s.Lapsed == s.Taken-s.Spent && admitted.Load()+s.Lapsed == charged.Load() {
			break
		}
		time.Sleep(time.Millisecond)
		s = layer.Stats()
	}
	if s.Lapsed != s.Taken-s.Spent {
		t.Errorf("%+v: some are left of a layer that is closed", s)
	}
	if got := admitted.Load() + s.Lapsed; got != charged.Load() {
		t.Errorf("%d were charged, %d admitted and %d lapsed: %d off", charged.Load(), admitted.Load(), s.Lapsed, got-charged.Load())
	}
	if s.Takes == 0 || left.Load() == 0 {
		t.Errorf("%+v, %d left", s, left.Load())
	}
}
