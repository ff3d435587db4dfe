package grpclimit

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// free reports how many permits are left.
func free(tb testing.TB, l *tidegate.Limiter, key string) int64 {
	tb.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

func TestServerPermits(t *testing.T) {
	api, permits := newLimiter(t, "1000/h", "ip"), newLimiter(t, "2 concurrent", "")
	enter, leave := make(chan struct{}), make(chan struct{})
	svc := &service{
		unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			enter <- struct{}{}
			<-leave
			return &testgrpc.SimpleResponse{}, nil
		},
		duplex: func(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
			enter <- struct{}{}
			<-s.Context().Done()
			return s.Context().Err()
		},
	}
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{Permits: permits}), svc), nil)
	done := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(context.Background(), &testgrpc.SimpleRequest{})
		done <- err
	}()
	<-enter
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := c.FullDuplexCall(ctx); err != nil {
		t.Fatal(err)
	}
	<-enter
	before := mustPeek(t, api, "127.0.0.1")
	err := call(t, c)
	wantCode(t, err, codes.ResourceExhausted)
	// The first permit expires in a minute, but it will be given back long before.
	if d, ok := RetryDelay(err); !ok || d != time.Second {
		t.Errorf("RetryDelay %v %v, want 1s", d, ok)
	}
	if after := mustPeek(t, api, "127.0.0.1"); after != before {
		t.Errorf("a call that found no permit was charged: %d left, then %d", before, after)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the unary call's permit is back", func() bool { return free(t, permits, "") == 1 })
	cancel()
	eventually(t, "the abandoned stream's permit is back", func() bool { return free(t, permits, "") == 2 })
}

func mustPeek(tb testing.TB, l *tidegate.Limiter, key string) int64 {
	tb.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// A permit comes back when the handler fails, when it panics, and when the call is refused by the rate.
func TestServerReleasesPermits(t *testing.T) {
	rate, permits := newLimiter(t, "2/h", "method"), newLimiter(t, "1 concurrent", "")
	s := newServer(t, rate, &ServerConfig{Permits: permits, PermitsBy: "service"})
	const key = "grpc.testing.TestService"
	info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	for i, handler := range []grpc.UnaryHandler{
		func(context.Context, any) (any, error) { return nil, errors.New("failed") },
		func(context.Context, any) (any, error) { panic("failed") },
		func(context.Context, any) (any, error) { t.Error("not refused"); return "", nil },
	} {
		func() {
			defer func() { _ = recover() }()
			_, _ = s.Unary(t.Context(), nil, info, func(ctx context.Context, req any) (any, error) {
				if n := free(t, permits, key); n != 0 {
					t.Errorf("call %d: %d permits left while it runs, want 0", i, n)
				}
				return handler(ctx, req)
			})
		}()
		if n := free(t, permits, key); n != 1 {
			t.Errorf("call %d: %d permits left, want 1", i, n)
		}
	}
	// A function of the configuration that panics leaves no permit behind either.
	s = newServer(t, rate, &ServerConfig{Permits: permits, Cost: func(*Call) int64 { panic("failed") }})
	func() {
		defer func() { _ = recover() }()
		_ = unary(t.Context(), s)
	}()
	if n := free(t, permits, ""); n != 1 {
		t.Errorf("after a panic in Cost: %d permits left, want 1", n)
	}
	// A call without the attribute is not limited by it.
	s = newServer(t, newLimiter(t, "1/h", ""), &ServerConfig{Permits: permits, PermitsBy: "metadata.none"})
	wantCode(t, unary(t.Context(), s), codes.OK)
}

// A call that takes longer than a permit lives keeps it.
func TestServerRenewsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := newLimiter(t, "1 concurrent ttl 3s", "")
		s := newServer(t, newLimiter(t, "unlimited", ""), &ServerConfig{Permits: permits})
		_, _ = s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) {
			for range 20 {
				time.Sleep(time.Second)
				if n := free(t, permits, ""); n != 0 {
					t.Fatalf("%d permits left while the call runs, want 0", n)
				}
			}
			return "", nil
		})
		if n := free(t, permits, ""); n != 1 {
			t.Errorf("%d permits left, want 1", n)
		}
		time.Sleep(time.Minute) // nothing renews it any more
		if n := free(t, permits, ""); n != 1 {
			t.Errorf("%d permits left a minute later, want 1", n)
		}
	})
}

// shaky is a store that fails to renew, so many times.
type shaky struct {
	tidegate.Store

	fails int
}

// Renew fails, or renews.
func (s *shaky) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	if s.fails > 0 {
		s.fails--
		return &tidegate.StoreError{Op: "renew", Err: errors.New("away")}
	}
	return s.Store.Renew(ctx, id, charges)
}

// A store that fails for a moment costs no permit: it is asked once more before that expires.
func TestServerRenewsPermitsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		limit := tidegate.Limit{Rate: 1, TTL: 6 * time.Second, Algorithm: tidegate.Concurrency}
		permits := newLimiterOn(t, &shaky{Store: store, fails: 1}, limit, "")
		s := newServer(t, newLimiter(t, "unlimited", ""), &ServerConfig{Permits: permits})
		_, _ = s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) {
			time.Sleep(20 * time.Second)
			if n := free(t, permits, ""); n != 0 {
				t.Errorf("%d permits left while the call runs, want 0", n)
			}
			return "", nil
		})
	})
}

// A store that cannot say refuses or lets pass, as FailOpen says.
func TestPermitsWithoutDecision(t *testing.T) {
	permits := newLimiter(t, "1 concurrent", "")
	away := memstore.New(nil)
	away.Close()
	closed := newLimiterOn(t, away, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "")
	wantCode(t, unary(t.Context(), newServer(t, newLimiter(t, "9/s", ""), &ServerConfig{Permits: permits})), codes.OK)
	wantCode(t, unary(t.Context(), newServer(t, newLimiter(t, "9/s", ""), &ServerConfig{Permits: closed})), codes.Unavailable)
	wantCode(t, unary(t.Context(), newServer(t, newLimiter(t, "9/s", ""), &ServerConfig{Permits: closed, FailOpen: true})), codes.OK)
}

// A client's permit comes back by whatever end a call has.
func TestClientPermits(t *testing.T) {
	permits := newLimiter(t, "1 concurrent", "")
	addr := serve(t, nil, &service{})
	limit := newClient(t, newLimiter(t, "unlimited", ""), &ClientConfig{Permits: permits})
	start := func(ctx context.Context, c testgrpc.TestServiceClient) grpc.BidiStreamingClient[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse] {
		t.Helper()
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	back := func() bool { return free(t, permits, "") == 1 }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := dial(t, addr, limit)
	for _, end := range []struct {
		name string
		do   func()
	}{
		{"a unary call", func() { wantCode(t, call(t, c), codes.OK) }},
		{"a unary call that failed", func() {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.UnaryCall(done, &testgrpc.SimpleRequest{}); err == nil {
				t.Error("no error")
			}
		}},
		{"the end of a stream", func() {
			s := start(ctx, c)
			wantCode(t, call(t, c), codes.ResourceExhausted)
			_ = s.CloseSend()
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}},
		{"a stream that could not start", func() {
			if _, err := dial(t, "passthrough:///127.0.0.1:1", limit).FullDuplexCall(ctx); err == nil {
				t.Error("a stream to nowhere")
			}
		}},
		{"a connection that was closed", func() {
			cc := connect(t, addr, limit)
			start(ctx, testgrpc.NewTestServiceClient(cc))
			cc.Close()
		}},
		{"a stream that was cancelled", func() { start(ctx, c); cancel() }},
	} {
		end.do()
		eventually(t, "the permit is back after "+end.name, back)
	}
}
