package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/due"
)

// waits are how stores wait for what does not come, of a context that some of them do not know.
var waits = map[string]func(context.Context){
	"for Done": func(ctx context.Context) { <-ctx.Done() },
	"for the ends": func(ctx context.Context) {
		gone, late := due.Ends(ctx)
		select {
		case <-gone:
		case <-late:
		}
	},
	"with a timeout of its own": func(ctx context.Context) {
		own, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-own.Done()
	},
	"until the deadline": func(ctx context.Context) { // as at a socket
		d, _ := ctx.Deadline()
		time.Sleep(time.Until(d))
	},
	"to be called": func(ctx context.Context) {
		called := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { close(called) })
		defer stop()
		<-called
	},
}

// hanging answers heartbeats alone, and lets the others wait in such a way until their context has ended.
func hanging(t *testing.T, wait func(context.Context)) fault {
	t.Helper()
	return func(ctx context.Context, op string, do func() error) error {
		if op == "beat" {
			return do()
		}
		wait(ctx)
		if ctx.Err() == nil {
			t.Error("the context has not ended")
		}
		return ctx.Err()
	}
}

// However a store hangs, and whenever its callers come, each of them has an answer within the timeout, and not much earlier.
func TestAnswerWithinTheTimeout(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplica(t, newServer(t), Config{Replicas: 1, Failures: 60_000})
				r.take(charge(t, "api", "first", "1000/s", 1))
				r.way.set(hanging(t, wait))
				var all sync.WaitGroup
				for i := range 300 {
					c := charge(t, "api", fmt.Sprint("k", i), "1000/s", 1) // nobody waits for another's payment
					all.Go(func() {
						start := time.Now()
						if d := r.take(c); d.Source != tidegate.SourceFallback {
							t.Errorf("%+v", d)
						}
						if took := time.Since(start); took > defaultTimeout || took < defaultTimeout*31/32 {
							t.Errorf("one waited %v", took)
						}
					})
					time.Sleep(300 * time.Microsecond)
				}
				all.Wait()
			})
		})
	}
}

// A caller who leaves does so at once and for the reason of its own, and says nothing of the store; so does one whose own deadline
// comes first.
func TestLeavingAHangingStore(t *testing.T) {
	for name, wait := range waits {
		if name == "until the deadline" { // the store does not look up
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplica(t, newServer(t), Config{Replicas: 1, Failures: 1})
				c := charge(t, "api", "k", "1000/s", 1)
				r.take(c)
				r.way.set(hanging(t, wait))
				take := func(ctx context.Context, want error, after time.Duration) {
					start := time.Now()
					if _, err := r.Take(ctx, []tidegate.Charge{c}, nil); !errors.Is(err, want) || errors.Is(err, tidegate.ErrStore) || time.Since(start) != after {
						t.Errorf("%v after %v, not %v after %v", err, time.Since(start), want, after)
					}
				}
				leaves, leave := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, leave)
				take(leaves, context.Canceled, 10*time.Millisecond)
				for _, d := range []time.Duration{time.Millisecond, defaultTimeout - time.Nanosecond, defaultTimeout} {
					ends, cancel := context.WithTimeout(t.Context(), d)
					take(ends, context.DeadlineExceeded, d)
					cancel()
				}
				if st := r.Status(); st.State != Shared {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Who waits while the store is closed is told within the timeout nonetheless.
func TestCloseKeepsDeadlines(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplica(t, newServer(t), Config{Replicas: 1})
				c := charge(t, "api", "k", "1000/s", 1)
				r.take(c)
				r.way.set(hanging(t, wait))
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						start := time.Now()
						_, _ = r.Take(t.Context(), []tidegate.Charge{c}, nil)
						if took := time.Since(start); took > defaultTimeout {
							t.Errorf("one waited %v", took)
						}
					})
				}
				time.Sleep(defaultTimeout / 4)
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				all.Wait()
			})
		})
	}
}
