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

// TestScriptFlushUnderLoad: a server that forgets its scripts while 64 callers are at it is sent each script once more,
// by one of them, and nobody notices.
func TestScriptFlushUnderLoad(t *testing.T) {
	const (
		callers = 64
		each    = 60
		admit   = 1000
		flushes = 6
	)
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{Timeout: time.Minute})
	window := fmt.Sprintf("%d/9000h fixed-window", admit) // takes the script of all kinds
	bucket := fmt.Sprintf("%d/1000h", admit)              // takes the one of buckets alone
	var allowed [2]atomic.Int64
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		c := newCharge(t, "flush", fmt.Sprint(i%2), [...]string{bucket, window}[i%2], 1)
		wg.Go(func() {
			for range each {
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if ds[0].Allowed {
					allowed[i%2].Add(1)
				}
				done.Add(1)
			}
		})
	}
	for i := range int64(flushes) {
		eventually(t, time.Minute, "takes go on", func() error {
			if n := done.Load(); n < callers*each*(i+1)/(flushes+1) && !t.Failed() {
				return fmt.Errorf("%d are done", n)
			}
			return nil
		})
		command(t, srv, "SCRIPT", "FLUSH")
	}
	wg.Wait()
	for i := range allowed {
		if n := allowed[i].Load(); n != admit {
			t.Errorf("limit %d: %d were admitted, not %d", i, n, admit)
		}
	}
	stats := commandStats(t, srv)
	if most := 2 * (flushes + 1); stats["eval"] < 2 || stats["eval"] > most {
		t.Errorf("%d times was a script sent whole; two scripts and %d flushes make it %d at most", stats["eval"], flushes, most)
	}
	t.Logf("%d evalsha, %d eval", stats["evalsha"], stats["eval"])
}

// TestScriptsAfterRestart: a server that was restarted knows neither scripts nor buckets, and the stores that lived
// through it find out without an error.
func TestScriptsAfterRestart(t *testing.T) {
	srv := redistest.Start(t)
	a, b := openStore(t, srv.URL(), nil), openStore(t, srv.URL(), nil)
	c := newCharge(t, "restart", "k", "10/1000h", 1)
	for range 2 {
		mustTake(t, a, c)
		mustTake(t, b, c)
	}
	if n := remaining(t, a, c); n != 6 {
		t.Fatalf("%d remain", n)
	}
	srv.Restart()
	for i, s := range []*Store{a, b, a, b} {
		d := mustTake(t, s, c)[0]
		if want := int64(9 - i); !d.Allowed || d.Remaining != want {
			t.Errorf("take %d: %+v; %d should remain", i, d, want)
		}
	}
	if stats := commandStats(t, srv); stats["eval"] != 1 {
		t.Errorf("the script was sent whole %d times, not once", stats["eval"])
	}
}

// TestEveryScriptIsSentAgain: not only takes find a server without scripts.
func TestEveryScriptIsSentAgain(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	ctx := context.Background()
	flushed := func(what string, f func() error) {
		t.Helper()
		command(t, srv, "SCRIPT", "FLUSH")
		if err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, limit := range []string{"10/1000h", "10/9000h fixed-window"} {
		c := newCharge(t, "again", limit, limit, 5)
		c.ID, c.Hold = "reservation-"+limit, time.Hour
		charges := []tidegate.Charge{c}
		flushed("take", func() error { _, err := s.Take(ctx, charges, nil); return err })
		flushed("settle", func() error { return s.Settle(ctx, c.ID, charges, 2) })
		if n := remaining(t, s, c); n != 8 {
			t.Errorf("%s: %d remain, not 8", limit, n)
		}
	}
	permit := newCharge(t, "again", "permit", "10 concurrent", 1)
	charges := []tidegate.Charge{permit}
	flushed("acquire", func() error { _, err := s.Take(ctx, charges, nil); return err })
	flushed("renew", func() error { return s.Renew(ctx, permit.ID, charges) })
	flushed("release", func() error { return s.Release(ctx, permit.ID, charges) })
	if n := remaining(t, s, permit); n != 10 {
		t.Errorf("%d permits remain, not 10", n)
	}
}
