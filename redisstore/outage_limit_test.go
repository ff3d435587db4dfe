//go:build !race

package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// TestLimitHoldsThroughAKill: three replicas with their own connections keep to one limit while the server dies and comes
// back empty. The bounds leave room for a busy machine; those in virtual time, in package resilience, do not.
func TestLimitHoldsThroughAKill(t *testing.T) {
	const away, back, end = 4500 * time.Millisecond, 7 * time.Second, 9 * time.Second // two tables must be of the load
	srv := redistest.StartTCP(t)
	var replicas []*guarded
	for range 3 {
		replicas = append(replicas, guard(t, srv.URL(), nil))
	}
	c := newCharge(t, "api", "k", "600/s burst 100", 1)
	var mu sync.Mutex
	var admitted []time.Duration
	var slowest time.Duration
	var wg sync.WaitGroup
	start := time.Now()
	flood := func() { // not held up by what the server takes to start
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for now := range tick.C {
			if now.Sub(start) > end {
				return
			}
			for range 2 {
				i := 0
				if p := rand.IntN(100); p >= 85 {
					i = 2
				} else if p >= 60 {
					i = 1
				}
				wg.Go(func() {
					begun := time.Now()
					ds, err := replicas[i].Take(context.Background(), []tidegate.Charge{c}, nil)
					mu.Lock()
					defer mu.Unlock()
					slowest = max(slowest, time.Since(begun))
					if err != nil {
						t.Errorf("take: %v", err)
					} else if ds[0].Allowed {
						admitted = append(admitted, time.Since(start))
					}
				})
			}
		}
	}
	wg.Go(flood)
	<-time.After(time.Until(start.Add(away)))
	srv.Kill()
	<-time.After(time.Until(start.Add(back)))
	srv.Restart()
	wg.Wait()
	peak := func(from, to time.Duration) (most, n int) {
		j := 0
		for i, at := range admitted {
			for admitted[j] <= at-time.Second {
				j++
			}
			if at >= from && at < to {
				most, n = max(most, i-j+1), n+1
			}
		}
		return most, n
	}
	outage, n := peak(away, back)
	mean := float64(n) / (back - away).Seconds()
	recovery, _ := peak(back, end)
	t.Logf("away: mean %.0f, peak %d; return: peak %d; the slowest took %v", mean, outage, recovery, slowest)
	if mean < 480 || mean > 640 || outage > 660 || recovery > 660 || slowest > 4*deadline {
		t.Error("out of bounds")
	}
}
