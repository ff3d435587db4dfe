package downstream

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A breaker starts nothing.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// clock stands still unless it is moved, either way.
type clock struct{ now time.Time }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

// open returns a breaker on a clock that stands still, and what it says of its changes.
func open(tb testing.TB, cfg Config) (*Breaker, *clock, *[]Change) {
	tb.Helper()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	changes := new([]Change)
	cfg.Now = c.read
	cfg.Changed = func(ch Change) { *changes = append(*changes, ch) }
	b, err := New(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b, c, changes
}

// fail records so many calls that fail.
func fail(b *Breaker, n int) {
	for range n {
		c, _ := b.Allow()
		c.Record(time.Millisecond, Failed)
	}
}

func succeed(b *Breaker, n int) {
	for range n {
		c, _ := b.Allow()
		c.Record(time.Millisecond, Succeeded)
	}
}

func wantState(tb testing.TB, b *Breaker, want State) {
	tb.Helper()
	if got := b.Status().State; got != want {
		tb.Errorf("%v, want %v", got, want)
	}
}
