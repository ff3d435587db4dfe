package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// caller takes without a pause until it is stopped, and keeps what went wrong.
type caller struct {
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	decided int
	errs    map[string]int
	wrong   error
}

func startCaller(s *Store, charge tidegate.Charge) *caller {
	c := &caller{stop: make(chan struct{}), errs: map[string]int{}}
	c.done.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
			}
			ds, err := s.Take(context.Background(), []tidegate.Charge{charge}, nil)
			c.mu.Lock()
			var se *tidegate.StoreError
			switch {
			case err == nil && len(ds) == 1:
				c.decided++
			case errors.As(err, &se):
				c.errs[err.Error()]++
			default:
				c.wrong = fmt.Errorf("%d decisions, %w", len(ds), err)
			}
			c.mu.Unlock()
		}
	})
	return c
}

// moreDecisions waits until n more takes were decided.
func (c *caller) moreDecisions(t *testing.T, within time.Duration, n int) {
	t.Helper()
	have := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.decided
	}
	start := have()
	eventually(t, within, "takes work", func() error {
		if more := have() - start; more < n {
			return fmt.Errorf("%d more were decided", more)
		}
		return nil
	})
}

// end stops the caller, and fails the test if it met anything but failures of the store.
func (c *caller) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	if c.wrong != nil {
		t.Errorf("an answer that is neither a decision nor a failure of the store: %v", c.wrong)
	}
	for text, n := range c.errs {
		t.Logf("%d × %s", n, text)
		if strings.Contains(text, "NOSCRIPT") {
			t.Errorf("%d × %s", n, text)
		}
	}
}

// TestSentinel: stores that were opened by a URL and made of a client live through a primary's death and through a
// planned failover, and what was charged is still charged.
func TestSentinel(t *testing.T) {
	set := redistest.StartSentinel(t)
	cfg := func() *Config { return &Config{Timeout: 500 * time.Millisecond} }
	stores := map[string]*Store{
		"url": openStore(t, "redis+sentinel://"+strings.Join(set.SentinelAddrs, ",")+"/"+set.MasterName, cfg()),
		"client": storeOn(t, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: set.MasterName, SentinelAddrs: set.SentinelAddrs, MaxRetries: 5,
		}), cfg()),
	}
	const limit = "1000000/9000h fixed-window"
	shared := newCharge(t, "sentinel", "shared", limit, 100)
	callers := map[string]*caller{}
	for name, s := range stores {
		mustTake(t, s, shared)
		callers[name] = startCaller(s, newCharge(t, "sentinel", name, limit, 1))
	}
	everybody := func(what string) {
		t.Helper()
		start := time.Now()
		for name, c := range callers {
			c.moreDecisions(t, 10*time.Second, 20)
			t.Logf("%s: %s decides again %v after", what, name, time.Since(start))
		}
	}
	everybody("at the start")

	kept := func(what string) {
		t.Helper()
		for name, s := range stores { // of which the last may still be asking a primary that was replaced
			eventually(t, 10*time.Second, name+" knows what was charged "+what, func() error {
				ds, err := s.Take(context.Background(), []tidegate.Charge{peekOf(shared)}, nil)
				if err == nil && ds[0].Remaining != 1_000_000-200 {
					err = fmt.Errorf("%d remain", ds[0].Remaining)
				}
				return err
			})
		}
	}

	// The planned one first: a set that was just healed may undo it.
	set.WaitReplicated(t)
	old := set.Failover(t)
	primary := set.WaitFailover(t, old)
	everybody("after a planned failover")
	kept("before a planned failover")

	eventually(t, 60*time.Second, "the sentinels know the new replica", func() error {
		for _, sentinel := range set.Sentinels {
			reply, err := sentinel.Do("SENTINEL", "REPLICAS", set.MasterName)
			if text := fmt.Sprint(reply); err != nil || !strings.Contains(text, " flags slave ") || !strings.Contains(text, "master-link-status ok") {
				return fmt.Errorf("%v %w", reply, err)
			}
		}
		return nil
	})
	set.WaitReplicated(t)
	if set.KillPrimary(t) != primary {
		t.Fatal("the primary has changed by itself")
	}
	set.WaitFailover(t, primary)
	everybody("after the primary's death")
	kept("before the primary's death")
	for _, c := range callers {
		c.end(t)
	}
}
