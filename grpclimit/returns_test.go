package grpclimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// slowRelease is a store that takes its time to release.
type slowRelease struct {
	tidegate.Store

	takes time.Duration
}

// Release releases, if there is time for it.
func (s *slowRelease) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	select {
	case <-time.After(s.takes):
		return s.Store.Release(ctx, id, charges)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The end of a call waited for the store to be told that it was one. It does not, and nothing is lost when the program ends.
func TestCallDoesNotWaitForWhatItGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		takes  time.Duration
		closed time.Duration
		left   int64
	}{"in time": {500 * time.Millisecond, 500 * time.Millisecond, 1}, "never": {time.Hour, time.Second, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowRelease{memstore.New(nil), c.takes}
				defer store.Close()
				permits := newLimiterOn(t, store, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "")
				s := newServer(t, newLimiter(t, "unlimited", ""), &ServerConfig{Permits: permits})
				start := time.Now()
				wantCode(t, unary(t.Context(), s), codes.OK)
				if took := time.Since(start); took > time.Millisecond {
					t.Errorf("the call ended after %v", took)
				}
				_ = s.Close()
				if took := time.Since(start); took != c.closed || free(t, permits, "") != c.left {
					t.Errorf("closed after %v, with %d permits left", took, free(t, permits, ""))
				}
			})
		})
	}
}
