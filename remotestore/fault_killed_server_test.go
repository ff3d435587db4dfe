package remotestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

// A server that is killed under load: every caller is answered by its deadline, with a decision or a store error, and
// takes are decided again once a server is back at the address.
func TestKilledServerUnderLoad(t *testing.T) {
	m := memory(t, nil)
	srv := serve(t, storeservice.Config{Store: m})
	const timeout = 300 * time.Millisecond
	s := open(t, srv.addr, &Config{Timeout: timeout})
	limit := parseLimit(t, "1000000/s burst 1000000")
	var decided, failed atomic.Int64
	var slowest atomic.Int64
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c := tidegate.Charge{Rule: "r", Key: strconv.Itoa(rand.IntN(8) * (i % 3)), Limit: limit, Cost: 1}
				from := time.Now()
				_, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if took := int64(time.Since(from)); took > slowest.Load() {
					slowest.Store(took)
				}
				switch {
				case err == nil:
					decided.Add(1)
				case errors.Is(err, tidegate.ErrStore):
					if failed.Add(1) > 1000 {
						<-time.After(time.Millisecond)
					}
				default:
					t.Errorf("%v is no store error", err)
					return
				}
			}
		})
	}
	until(t, "takes are decided", func() bool { return decided.Load() > 1000 })
	srv.Stop()
	until(t, "takes fail", func() bool { return failed.Load() > 100 })
	n := decided.Load()
	serveOn(t, srv.addr, storeservice.Config{Store: m})
	until(t, "takes are decided again", func() bool { return decided.Load() > n+1000 })
	close(stop)
	callers.Wait()
	// One timeout in the queue and one in flight, and what the machine was busy with.
	if took := time.Duration(slowest.Load()); took > 2*timeout+time.Second {
		t.Errorf("a caller waited for %v", took)
	}
}

// A server that takes connections and says nothing, as a black hole does: callers leave at their own deadline or the store's.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := open(t, l.Addr().String(), &Config{Timeout: 200 * time.Millisecond})
	c := newCharge(t, "k", "10/s", 1)
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			ctx, want := context.Background(), tidegate.ErrStore
			if i%2 == 0 {
				bounded, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				ctx, want = bounded, context.DeadlineExceeded
			}
			from := time.Now()
			_, err := s.Take(ctx, []tidegate.Charge{c}, nil)
			if !errors.Is(err, want) || i%2 == 0 && errors.Is(err, tidegate.ErrStore) {
				t.Errorf("%v, want %v", err, want)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not say that it is about time", err)
			}
			if took := time.Since(from); took > 5*time.Second {
				t.Errorf("answered after %v", took)
			}
		})
	}
	callers.Wait()
}

// counting fails each take after it has charged, as if the reply were lost, and counts them.
type counting struct {
	tidegate.Store
	takes atomic.Int64
	fail  func(n int64) error
}

func (s *counting) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	n := s.takes.Add(1)
	dst, err := s.Store.Take(ctx, charges, dst)
	if err == nil {
		err = s.fail(n)
	}
	return dst, err
}

// A take that may have run is not made again, whatever the status says: here the handler is gone after it charged.
func TestNothingThatMayHaveRunIsMadeAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted, codes.Internal} {
		store := &counting{Store: memory(t, nil), fail: func(int64) error { return nil }}
		srv := serve(t, storeservice.Config{Store: store}, afterwards(func() error { return status.Error(code, "lost") }))
		s := open(t, srv.addr, nil)
		_, err := s.Take(t.Context(), []tidegate.Charge{newCharge(t, "k", "10/s", 1)}, nil)
		if !errors.Is(err, tidegate.ErrStore) || store.takes.Load() != 1 {
			t.Errorf("%v: %v after %d takes", code, err, store.takes.Load())
		}
	}
}
