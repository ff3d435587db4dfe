package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tidegate-go/tidegate"
)

func TestClientRefuses(t *testing.T) {
	var handled atomic.Int64
	svc := &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		handled.Add(1)
		return &testgrpc.SimpleResponse{}, nil
	}}
	limit := newClient(t, newLimiter(t, "2/h", "target"), nil)
	a, b := dial(t, serve(t, nil, svc), limit), dial(t, serve(t, nil, svc), limit)
	for range 2 {
		wantCode(t, call(t, a), codes.OK)
	}
	err := call(t, a)
	wantCode(t, err, codes.ResourceExhausted)
	if d, ok := RetryDelay(err); !ok || d < 29*time.Minute || d > 30*time.Minute {
		t.Errorf("RetryDelay %v %v, want 30m", d, ok)
	}
	// Its own refusal is not taken for the server's word, and another target has a bucket of its own.
	if n := limit.pushback.active.Load(); n != 0 {
		t.Errorf("%d pushbacks of a server that was not asked", n)
	}
	wantCode(t, call(t, b), codes.OK)
	if n := handled.Load(); n != 3 {
		t.Errorf("%d calls got to a server, want 3", n)
	}
}

// A limit by address never applies to a client's calls; that is said once.
func TestClientLimitByAddress(t *testing.T) {
	var log logBuffer
	limit := newClient(t, newLimiter(t, "1/h", ""), &ClientConfig{Logger: log.logger()})
	c := dial(t, serve(t, nil, &service{}), limit)
	for range 3 {
		wantCode(t, call(t, c), codes.OK)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "target") {
		t.Errorf("want one line that says what to do:\n%s", log.String())
	}
}

// pushing answers each call with the code and, where the delay is positive, when to come again.
func pushing(code codes.Code, delay time.Duration) (*service, *atomic.Int64) {
	asked := new(atomic.Int64)
	fail := func() error {
		asked.Add(1)
		s := status.New(code, "not now")
		if delay != 0 {
			s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		}
		return s.Err()
	}
	return &service{
		unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			return nil, fail()
		},
		duplex: func(serverDuplex) error { return fail() },
	}, asked
}

// After a server has said when to come again, nothing is sent until then: of the same method, to the same target.
func TestClientObeysTheServer(t *testing.T) {
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Unavailable} {
		svc, asked := pushing(code, time.Hour)
		own := newLimiter(t, "100/h", "target")
		limit := newClient(t, own, nil)
		addr := serve(t, nil, svc)
		c := dial(t, addr, limit)
		wantCode(t, call(t, c), code)
		err := call(t, c)
		wantCode(t, err, code)
		if d, ok := RetryDelay(err); !ok || d <= 50*time.Second || d > time.Minute {
			t.Errorf("RetryDelay %v %v, want MaxPushback, 1m", d, ok)
		}
		if quotaOf(t, err) != nil {
			t.Error("a quota failure of a limit that was not asked")
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the server was asked %d times, want once", n)
		}
		if n := mustPeek(t, own, addr); n != 99 {
			t.Errorf("%d left: a call that was not sent was charged", n)
		}
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
			t.Errorf("another method: %v", err)
		}
		other, otherAsked := pushing(code, 0)
		wantCode(t, call(t, dial(t, serve(t, nil, other), limit)), code)
		if otherAsked.Load() != 1 {
			t.Error("another target was not asked")
		}
		// Streams are observed as well, by their end.
		s := duplex(t, t.Context(), c)
		if _, err := s.Recv(); codeOf(err) != code {
			t.Errorf("the stream: %v", err)
		}
		if _, err := c.FullDuplexCall(t.Context()); codeOf(err) != code || asked.Load() != 2 {
			t.Errorf("the next stream: %v; the server was asked %d times, want 2", err, asked.Load())
		}
	}
}

// What is no pushback is none.
func TestClientIsNotStopped(t *testing.T) {
	for _, c := range []struct {
		code  codes.Code
		delay time.Duration
		cfg   *ClientConfig
	}{
		{codes.ResourceExhausted, 0, nil},  // such as a message that is too large
		{codes.ResourceExhausted, -1, nil}, // nonsense
		{codes.Unavailable, 0, nil},
		{codes.Aborted, time.Hour, nil}, // it is the transaction that is to be tried again, not the method to be left alone
		{codes.ResourceExhausted, time.Hour, &ClientConfig{IgnorePushback: true}},
		{codes.ResourceExhausted, time.Hour, &ClientConfig{Skip: func(*Call) bool { return true }}},
		{codes.ResourceExhausted, time.Hour, &ClientConfig{MaxPushback: 1}},
	} {
		svc, asked := pushing(c.code, c.delay)
		cl := dial(t, serve(t, nil, svc), newClient(t, newLimiter(t, "100/h", "target"), c.cfg))
		for range 3 {
			wantCode(t, call(t, cl), c.code)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("%v %v %+v: the server was asked %d times, want 3", c.code, c.delay, c.cfg, n)
		}
	}
}

// The limit that one user of the client has reached at the server does not stop the others.
func TestClientPushbackByAttribute(t *testing.T) {
	svc, asked := pushing(codes.ResourceExhausted, time.Hour)
	limit := newClient(t, newLimiter(t, "100/h", "target"), &ClientConfig{PushbackBy: "metadata.user"})
	c := dial(t, serve(t, nil, svc), limit)
	for i, user := range []string{"alice", "alice", "bob", "bob", "alice", ""} {
		ctx := t.Context()
		if user != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "user", user)
		}
		_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{})
		wantCode(t, err, codes.ResourceExhausted)
		if want := []int64{1, 1, 2, 2, 2, 3}[i]; asked.Load() != want {
			t.Errorf("%d: %s: the server was asked %d times, want %d", i, user, asked.Load(), want)
		}
	}
}

// clientUnary calls a client's interceptor without a connection, for tests in virtual time.
func clientUnary(ctx context.Context, c *Client, answer error) error {
	return c.Unary(ctx, unaryMethod, nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return answer })
}

func pushbackError(d time.Duration) error {
	s, _ := status.New(codes.Unavailable, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	return s.Err()
}

func TestClientWaitsAsTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newLimiter(t, "1/s burst 2", "target"), &ClientConfig{MaxWait: 10 * time.Second})
		start := time.Now()
		wantCode(t, clientUnary(t.Context(), c, pushbackError(7*time.Second)), codes.Unavailable)
		wantCode(t, clientUnary(t.Context(), c, nil), codes.OK)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("passed after %v, want 7s", took)
		}
		if n := c.pushback.active.Load(); n != 0 {
			t.Errorf("%d pushbacks left", n)
		}
		// A shorter word that comes later does not shorten a longer one.
		_ = clientUnary(t.Context(), c, pushbackError(20*time.Second))
		c.pushback.observe(&Call{gate: &c.gate, method: unaryMethod}, pushbackError(time.Second))
		start = time.Now()
		err := clientUnary(t.Context(), c, nil)
		wantCode(t, err, codes.Unavailable)
		if d, _ := RetryDelay(err); d != 20*time.Second || time.Since(start) != 0 {
			t.Errorf("refused with %v after %v, want 20s, at once", d, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(15 * time.Second)
		time.AfterFunc(time.Second, cancel)
		wantCode(t, clientUnary(ctx, c, nil), codes.Canceled)
		// One wait bounds both: 4 s for the server, then the limit's own.
		slow := newClient(t, newLimiter(t, "1/8s", "target"), &ClientConfig{MaxWait: 10 * time.Second})
		_ = clientUnary(t.Context(), slow, pushbackError(4*time.Second))
		start = time.Now()
		wantCode(t, clientUnary(t.Context(), slow, nil), codes.OK)
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("passed after %v, want 8s", took)
		}
	})
}

// However many values the attribute has, what is remembered is bounded.
func TestClientPushbacksAreBounded(t *testing.T) {
	p := newPushbacks("user", time.Hour)
	g := &gate{attribute: func(c *Call, _ string) (string, bool) { return c.method, true }}
	err := pushbackError(time.Minute)
	for i := range maxPushbacks + 100 {
		p.observe(&Call{gate: g, method: fmt.Sprint(i)}, err)
	}
	if n := len(p.until); n != maxPushbacks || p.active.Load() != int64(n) {
		t.Errorf("%d remembered (%d counted), want %d", n, p.active.Load(), maxPushbacks)
	}
}

func TestClientConfigErrors(t *testing.T) {
	rate := newLimiter(t, "1/s", "")
	for _, c := range []struct {
		decider tidegate.Decider
		cfg     *ClientConfig
		want    string
	}{
		{nil, nil, "the decider is nil"},
		{rate, &ClientConfig{Permits: rate}, "not one of permits"},
		{rate, &ClientConfig{MaxPushback: -1}, "MaxPushback"},
		{rate, &ClientConfig{IgnorePushback: true, PushbackBy: "user"}, "IgnorePushback"},
	} {
		_, err := NewClient(c.decider, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
}

func TestClientWithoutDecision(t *testing.T) {
	cause := errors.New("away")
	c := newClient(t, always(tidegate.Decision{}, cause), nil)
	wantCode(t, clientUnary(t.Context(), c, nil), codes.Unavailable)
	c = newClient(t, always(tidegate.Decision{}, cause), &ClientConfig{FailOpen: true})
	wantCode(t, clientUnary(t.Context(), c, nil), codes.OK)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, clientUnary(done, c, nil), codes.Canceled)
}
