package grpclimit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/tidegate-go/tidegate"
)

// unary calls a server's interceptor without a server, for tests in virtual time.
func unary(ctx context.Context, s *Server) error {
	_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) { return "", nil })
	return err
}

func TestWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/s", "method"), &ServerConfig{MaxWait: 1500 * time.Millisecond})
		start := time.Now()
		for range 3 {
			wantCode(t, unary(t.Context(), s), codes.OK)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("three calls took %v, want exactly 2s", took)
		}
		if n := s.gate.waiting.Load(); n != 0 {
			t.Errorf("%d still counted as waiting", n)
		}
	})
}

// What cannot be in time is refused at once.
func TestWaitsNoLongerThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/10s", "method"), &ServerConfig{MaxWait: 9 * time.Second})
		patient := newServer(t, s.gate.decider, &ServerConfig{MaxWait: time.Hour})
		wantCode(t, unary(t.Context(), s), codes.OK)
		start := time.Now()
		err := unary(t.Context(), s)
		wantCode(t, err, codes.ResourceExhausted)
		if d, ok := RetryDelay(err); !ok || d != 10*time.Second {
			t.Errorf("RetryDelay %v %v, want 10s", d, ok)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wantCode(t, unary(ctx, patient), codes.ResourceExhausted)
		if took := time.Since(start); took != 0 {
			t.Errorf("the refusals took %v", took)
		}
		// A cost that never passes is not waited for.
		never := newServer(t, newLimiter(t, "none", "method"), &ServerConfig{MaxWait: time.Hour})
		wantCode(t, unary(t.Context(), never), codes.ResourceExhausted)
		if took := time.Since(start); took != 0 {
			t.Errorf("what never passes was waited for, for %v", took)
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/10s", "method"), &ServerConfig{MaxWait: time.Hour})
		wantCode(t, unary(t.Context(), s), codes.OK)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		wantCode(t, unary(ctx, s), codes.Canceled)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
		if n := s.gate.waiting.Load(); n != 0 {
			t.Errorf("%d still counted as waiting", n)
		}
		// It was charged nothing: the next turn is still free.
		wantCode(t, unary(t.Context(), s), codes.OK)
	})
}

// 1,000 callers at once, of which 5 may wait: one passes, 5 wait and pass, the others are refused without delay.
func TestNoMoreWaitThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/s", "method"), &ServerConfig{MaxWait: time.Minute, MaxWaiting: 5})
		start := time.Now()
		var passed, refused, late atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				err := unary(t.Context(), s)
				if err == nil {
					passed.Add(1)
					return
				}
				wantCode(t, err, codes.ResourceExhausted)
				refused.Add(1)
				if time.Since(start) != 0 {
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 6 || refused.Load() != 994 || late.Load() != 0 || time.Since(start) != 5*time.Second {
			t.Errorf("passed %d, refused %d, of these late %d, in %v", passed.Load(), refused.Load(), late.Load(), time.Since(start))
		}
		if n := s.gate.waiting.Load(); n != 0 {
			t.Errorf("%d still counted as waiting", n)
		}
	})
}

// Those who wait are served in the order in which they came, whoever comes in between.
func TestTurnsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/s", "method"), &ServerConfig{MaxWait: time.Minute})
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				wantCode(t, unary(t.Context(), s), codes.OK)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("served in the order %v", order)
		}
	})
}

// What has no turns to give is asked again when there is room: an engine of rules, a sliding log.
func TestWaitsWithoutReservations(t *testing.T) {
	for _, name := range []string{"engine", "sliding log"} {
		synctest.Test(t, func(t *testing.T) {
			var d tidegate.Decider = newLimiter(t, "1/s sliding-log", "method")
			if name == "engine" {
				d = deciderFunc(newLimiter(t, "1/s", "method").Decide)
			}
			s := newServer(t, d, &ServerConfig{MaxWait: 2 * time.Second})
			start := time.Now()
			var passed atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if unary(t.Context(), s) == nil {
						passed.Add(1)
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); passed.Load() != 3 || took != 2*time.Second {
				t.Errorf("%s: %d passed in %v, want 3 in 2s", name, passed.Load(), took)
			}
		})
	}
}

// A leaky bucket's queue has an order and a bound of its own.
func TestKeepsToTheDelayOfALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newLimiter(t, "1/s leaky-bucket queue 2", "method"), nil)
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				wantCode(t, unary(t.Context(), s), codes.OK)
				mu.Lock()
				at = append(at, time.Since(start))
				mu.Unlock()
			})
		}
		synctest.Wait()
		wantCode(t, unary(t.Context(), s), codes.ResourceExhausted)
		wg.Wait()
		if len(at) != 3 || at[0] != 0 || at[1] != time.Second || at[2] != 2*time.Second {
			t.Errorf("passed at %v, want 0s 1s 2s", at)
		}
		// A turn that comes after the deadline is not slept for.
		wantCode(t, unary(t.Context(), s), codes.OK)
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wantCode(t, unary(ctx, s), codes.DeadlineExceeded)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		// It is given back, so that the next one does not wait for it.
		wantCode(t, unary(t.Context(), s), codes.OK)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the next one took %v, want 1s", took)
		}
	})
}

// A Decider that refuses without a delay is not asked in a loop.
func TestDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := newServer(t, deciderFunc(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
			asked++
			return tidegate.Decision{Limit: 1}, nil
		}), &ServerConfig{MaxWait: 10 * time.Millisecond})
		wantCode(t, unary(t.Context(), s), codes.ResourceExhausted)
		if asked > 11 {
			t.Errorf("asked %d times in 10 ms", asked)
		}
	})
}

// Lines of log follow the state, not the calls.
func TestFailuresAreLoggedByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var fail atomic.Bool
		s := newServer(t, deciderFunc(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
			if fail.Load() {
				return tidegate.Decision{}, tidegate.ErrClosed
			}
			return tidegate.Decision{Allowed: true}, nil
		}), &ServerConfig{Logger: log.logger()})
		for i := range 3000 { // 30 s, with two calls of three failing
			fail.Store(i%3 != 0)
			_ = unary(t.Context(), s)
			time.Sleep(10 * time.Millisecond)
		}
		lines := 0
		for _, c := range log.String() {
			if c == '\n' {
				lines++
			}
		}
		if lines < 4 || lines > 8 {
			t.Errorf("%d lines in 30 s:\n%s", lines, log.String())
		}
	})
}
