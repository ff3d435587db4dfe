package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// Who waits for a batch is answered by the deadline of the wrapper, and leaves when it likes, though the store itself has more
// patience with a server that hangs.
func TestOutageWhileWaiting(t *testing.T) {
	const patience = time.Minute
	srv := redistest.Start(t)
	shared, err := Open(srv.URL(), &Config{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	s, err := resilience.New(shared, &resilience.Config{Replicas: 1, Failures: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := newCharge(t, "r", "k", "1000/h", 1)
	mustTake(t, s, c)
	srv.Pause()
	defer srv.Resume()
	var callers sync.WaitGroup
	start := time.Now()
	for i := range 32 {
		callers.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if i%2 == 1 { // before the deadline
				time.AfterFunc(time.Millisecond, leave)
			}
			switch ds, err := s.Take(ctx, []tidegate.Charge{c}, nil); {
			case i%2 == 1 && errors.Is(err, context.Canceled):
			case err != nil || ds[0].Source != tidegate.SourceFallback:
				t.Errorf("caller %d: %+v, %v", i, ds, err)
			}
		})
	}
	callers.Wait()
	if took := time.Since(start); took > patience/4 {
		t.Errorf("they waited %v", took)
	}
}
