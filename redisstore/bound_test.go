package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// The short way charges what it allows and tells each caller what it would have been told by the long one, whatever others ask
// of the bucket meanwhile.
func TestBoundCharges(t *testing.T) {
	for _, text := range []string{"1000/365day burst 5000", "5000/365day fixed-window", "1000/365day burst 5000 shards 4", "1000/s burst 5000 lease 50ms"} {
		t.Run(text, func(t *testing.T) {
			s := openStore(t, redistest.Start(t).URL(), &Config{Timeout: 20 * time.Second})
			limit := parseLimit(t, text)
			l, err := tidegate.New(s, *limit, &tidegate.Config{Rule: "r"})
			if err != nil {
				t.Fatal(err)
			}
			exact := limit.Lease == 0 && limit.Shards == 0
			start := time.Now()
			var allowed atomic.Int64
			var told sync.Map
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					view := l.Key("k")
					for n := range 100 {
						var d tidegate.Decision
						var err error
						cost := int64(1)
						switch (i + n) % 8 {
						case 0:
							cost = 2
							d, err = l.AllowN(context.Background(), "k", 2)
						case 1:
							d, err = view.Allow(context.Background())
						case 2:
							var ds []tidegate.Decision
							c := tidegate.Charge{Rule: "r", Key: "k", Limit: limit, Cost: 1}
							if ds, err = s.Take(context.Background(), []tidegate.Charge{c}, nil); err == nil {
								d = ds[0]
							}
						default:
							d, err = l.Allow(context.Background(), "k")
						}
						if err != nil {
							t.Error(err)
							return
						}
						if d.Rule != "r" {
							t.Errorf("the rule is %q", d.Rule)
						}
						if !d.Allowed {
							continue
						}
						allowed.Add(cost)
						if _, twice := told.LoadOrStore(d.Remaining, true); twice && exact {
							t.Errorf("two takes were told that %d remain", d.Remaining)
						}
					}
				})
			}
			wg.Wait()
			if exact && allowed.Load() != 5000 {
				t.Errorf("%d passed, not 5000", allowed.Load())
			}
			most := 5000 + int64(1000*(time.Since(start)+50*time.Millisecond).Seconds())
			if n := allowed.Load(); n > most {
				t.Errorf("%d passed, above %d", n, most)
			}
			atRest(t, s)
		})
	}
}

// The short way is that of the store itself alone, and says what the long one does of a caller who is gone, a closed store and a
// cost that never passes.
func TestBoundSaysTheSame(t *testing.T) {
	s := openStore(t, redistest.Start(t).URL(), nil)
	if b := s.Bind(struct{ tidegate.Store }{s}, "r"); b != nil {
		t.Error("a store around it is passed by")
	}
	l, err := tidegate.New(s, *parseLimit(t, "10/h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := l.Allow(gone, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("one who is gone: %v", err)
	}
	if d, err := l.AllowN(t.Context(), "k", 11); err != nil || d.Allowed || d.RetryAfter != tidegate.Never {
		t.Errorf("a cost that never passes: %+v, %v", d, err)
	}
	if d, err := l.AllowN(t.Context(), "k", -1); err != nil || !d.Allowed {
		t.Errorf("a refund: %+v, %v", d, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, tidegate.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
