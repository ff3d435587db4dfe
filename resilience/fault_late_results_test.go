package resilience

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A call that hangs from before an outage until after it counts in neither: RB-128.
func TestLateResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Timeout: 10 * time.Second})
		c := charge(t, "api", "k", "1000/s", 1)
		r.take(c)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return fails("READONLY")(ctx, op, do)
			}
			time.Sleep(5 * time.Second)
			return fails("late")(ctx, op, do)
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { r.take(c) })
		}
		time.Sleep(2 * time.Second)
		if st := r.Status(); st.State != Fallback {
			t.Fatalf("%+v", st)
		}
		r.way.set(nil)
		time.Sleep(time.Second)
		if d := r.take(c); d.Source != tidegate.SourceStore {
			t.Fatalf("%+v", d)
		}
		all.Wait() // they fail now
		if d := r.take(c); d.Source != tidegate.SourceStore || r.Status().State != Shared {
			t.Errorf("%+v, %+v", d, r.Status())
		}
	})
}
