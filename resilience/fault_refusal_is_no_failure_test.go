package resilience

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// The caller's deadline and leaving are the caller's own, and count neither way; a refusal is an answer: RB-081, RB-089.
func TestWhatIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		time.Sleep(100 * time.Millisecond)
		c := charge(t, "api", "k", "1/h", 1)
		r.take(c)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return do()
			}
			return hangs(ctx, op, do)
		})
		for range 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			start := time.Now()
			_, err := r.Take(ctx, []tidegate.Charge{c}, nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidegate.ErrStore) || time.Since(start) != 10*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err = r.Take(ctx, []tidegate.Charge{c}, nil); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		r.way.set(nil)
		for range 20 {
			if d := r.take(c); d.Allowed || d.Source != tidegate.SourceStore {
				t.Fatalf("%+v", d)
			}
		}
		bad := c
		bad.Limit = &tidegate.Limit{}
		for range 20 {
			var le *tidegate.LimitError
			if _, err := r.Take(context.Background(), []tidegate.Charge{bad}, nil); !errors.As(err, &le) {
				t.Fatal(err)
			}
		}
		if st := r.Status(); st.State != Shared || r.log.count() != 0 {
			t.Errorf("%+v\n%s", st, r.log)
		}
	})
}
