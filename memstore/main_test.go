package memstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"go.uber.org/goleak"
)

// Nothing that a store started outlives it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// still is a clock that stands still unless it is moved.
type still struct{ us atomic.Int64 }

func (c *still) now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *still) advance(d time.Duration) { c.us.Add(int64(d / time.Microsecond)) }

// open returns a store that decides by a clock that stands still, and the clock.
func open(tb testing.TB, cfg Config) (*Store, *still) {
	tb.Helper()
	c := &still{}
	c.us.Store(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixMicro())
	cfg.Now = c.now
	s := New(&cfg)
	tb.Cleanup(func() { _ = s.Close() })
	return s, c
}

// limit reads a limit.
func limit(tb testing.TB, text string) *tidegate.Limit {
	tb.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	return &l
}

// take charges a key once.
func take(tb testing.TB, s *Store, l *tidegate.Limit, key string, cost int64) tidegate.Decision {
	tb.Helper()
	c := tidegate.Charge{Rule: "rule", Key: key, Limit: l, Cost: cost}
	if l.Algorithm == tidegate.Concurrency {
		c.ID = "id of " + key
	}
	return takeCharge(tb, s, c)
}

func takeCharge(tb testing.TB, s *Store, c tidegate.Charge) tidegate.Decision {
	tb.Helper()
	ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ds[0]
}

// algorithms are a limit of each kind; all hold 20.
var algorithms = map[string]string{
	"token bucket":    "10/s burst 20",
	"leaky bucket":    "10/s leaky-bucket queue 19",
	"fixed window":    "20/min fixed-window",
	"calendar window": "20/day tz Europe/Vienna",
	"sliding window":  "20/min sliding-window slices 6",
	"sliding log":     "20/min sliding-log",
	"permits":         "20 concurrent ttl 1m",
}
