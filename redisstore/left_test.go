package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// What a caller would have held who left while it was decided is given back: a permit did occupy its place until it expired.
func TestWhoLeavesHoldsNothing(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{Timeout: 20 * time.Second})
	permits, err := tidegate.New(s, *parseLimit(t, "10000 concurrent ttl 10m"), &tidegate.Config{Rule: "permits"})
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := tidegate.New(s, *parseLimit(t, "1000/365day burst 10000"), &tidegate.Config{Rule: "bucket", KeyBy: "ip"})
	if err != nil {
		t.Fatal(err)
	}
	var left, held atomic.Int64
	// On a busy machine all would leave: then they are more patient.
	for patience := 300 * time.Microsecond; held.Load() < 20 && patience < 100*time.Millisecond; patience *= 4 {
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for n := range 40 {
					ctx, leave := context.WithTimeout(context.Background(), time.Duration((i*7+n*13)%40)*patience)
					l := permits
					if n%2 == 0 {
						l = bucket
					}
					d, h, err := l.HoldFor(ctx, sameKey{}, tidegate.Terms{Cost: 1, CancelWithin: time.Hour})
					leave()
					switch {
					case err != nil:
						left.Add(1)
					case !d.Allowed:
						t.Errorf("%+v", d)
					default:
						held.Add(1)
						if err := h.Cancel(context.Background()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
	}
	if left.Load() < 20 || held.Load() < 20 {
		t.Fatalf("%d left and %d held: too few to tell", left.Load(), held.Load())
	}
	eventually(t, 10*time.Second, "all is given back", func() error {
		for _, l := range []*tidegate.Limiter{permits, bucket} {
			d, err := l.Peek(context.Background(), "k")
			if err != nil {
				return err
			}
			if d.Remaining != d.Limit {
				return notBackError(d.Limit - d.Remaining)
			}
		}
		return nil
	})
	atRest(t, s)
}

// sameKey has the key k for whatever is asked.
type sameKey struct{}

func (sameKey) Attribute(string) (string, bool) { return "k", true }

type notBackError int64

func (e notBackError) Error() string { return fmt.Sprintf("%d are held still", int64(e)) }
