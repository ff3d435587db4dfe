//go:build unix

package redisstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// TestNeverThere: a replica that starts while nobody listens, or nobody answers, decides at once by its part.
func TestNeverThere(t *testing.T) {
	for name, address := range map[string]string{
		"refused": "redis://127.0.0.1:1", "silent": "redis://" + silentListener(t),
		"cluster, refused": "redis+cluster://127.0.0.1:1", "cluster, silent": "redis+cluster://" + silentListener(t) + "," + silentListener(t),
		"sentinels, refused": "redis+sentinel://127.0.0.1:1/m", "sentinels, silent": "redis+sentinel://" + silentListener(t) + "," + silentListener(t) + "/m",
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, address, nil)
			c := newCharge(t, "api", "k", "100/1000h", 1)
			all := g.ask(c, 50, 500*time.Millisecond)
			if d := slowest(all); d > 3*deadline && !raceDetector {
				t.Errorf("one waited %v", d)
			}
			for _, x := range all {
				if x.from != tidegate.SourceFallback {
					t.Fatalf("%+v", x)
				}
			}
		})
	}
}

// TestCrowdAtABlackHole: of a thousand that come at once each waits for the deadline once.
func TestCrowdAtABlackHole(t *testing.T) {
	srv := redistest.StartTCP(t)
	r := newRelay(t, srv.Addr)
	g := guard(t, r.url(), nil)
	c := newCharge(t, "api", "k", "1000000/s", 1)
	mustTake(t, g, c)
	g.returns(c)
	nothing := ""
	r.answer.Store(&nothing)
	for round, most := range []time.Duration{4 * deadline, deadline} {
		var worst atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				start := time.Now()
				mustTake(t, g, c)
				worst.Store(max(worst.Load(), int64(time.Since(start))))
			})
		}
		wg.Wait()
		if d := time.Duration(worst.Load()); d > most && !raceDetector {
			t.Errorf("round %d: one waited %v", round, d)
		}
	}
}
