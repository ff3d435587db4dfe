package grpclimit

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectiongrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/tidegate-go/tidegate"
)

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A refused call says what refused it and when to come again: in the status for programs, in the trailers for the rest.
func TestServerRefusesUnary(t *testing.T) {
	api := newLimiter(t, "2/h", "ip")
	c := dial(t, serve(t, newServer(t, api, nil), &service{}), nil)
	for range 2 {
		wantCode(t, call(t, c), codes.OK)
	}
	var header, trailer metadata.MD
	err := call(t, c, grpc.Header(&header), grpc.Trailer(&trailer))
	wantCode(t, err, codes.ResourceExhausted)
	delay, ok := RetryDelay(err)
	if !ok || delay <= 29*time.Minute || delay > 30*time.Minute {
		t.Errorf("RetryDelay %v %v, want just below 30m", delay, ok)
	}
	q := quotaOf(t, err)
	if q == nil || q.GetSubject() != "rule:api" || q.GetQuotaId() != "api" || q.GetQuotaValue() != 2 {
		t.Errorf("quota failure %v", q)
	}
	want := map[string]string{
		"retry-after":      "1800",
		"ratelimit-policy": `"api";q=2;w=3600`,
		"ratelimit":        `"api";r=0;t=1800`,
	}
	for k, v := range want {
		if got := trailer.Get(k); len(got) != 1 || got[0] != v {
			t.Errorf("trailer %s: %q, want %q", k, got, v)
		}
	}
	if ms := trailer.Get("grpc-retry-pushback-ms"); len(ms) != 1 || !strings.HasPrefix(ms[0], "1799") && ms[0] != "1800000" {
		t.Errorf("pushback %q, want just below 1800000", ms)
	}
	for k := range want {
		if len(header.Get(k)) != 0 {
			t.Errorf("%s is a header: a server that has sent headers takes the client's retries away", k)
		}
	}
}

func TestServerRefusesStream(t *testing.T) {
	api := newLimiter(t, "1/h", "ip")
	c := dial(t, serve(t, newServer(t, api, nil), &service{}), nil)
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, ignoreEOF(err), want)
		if got := len(s.Trailer().Get("retry-after")); got != i {
			t.Errorf("call %d: %d retry-after, want %d", i, got, i)
		}
	}
}

func TestServerTellsAllowed(t *testing.T) {
	api := newLimiter(t, "10/min burst 5", "ip")
	var left atomic.Int64
	svc := &service{
		unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			d, ok := FromContext(ctx)
			if !ok {
				t.Error("no decision in the context")
			}
			left.Store(d.Remaining)
			return &testgrpc.SimpleResponse{}, nil
		},
		duplex: func(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
			if d, ok := FromContext(s.Context()); !ok || d.Remaining != 3 {
				t.Errorf("a stream's decision %+v %v", d, ok)
			}
			return nil
		},
	}
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{TellAllowed: true}), svc), nil)
	var trailer metadata.MD
	wantCode(t, call(t, c, grpc.Trailer(&trailer)), codes.OK)
	if got := trailer.Get("ratelimit"); len(got) != 1 || got[0] != `"api";r=4;t=6` {
		t.Errorf("ratelimit %q", got)
	}
	if left.Load() != 4 {
		t.Errorf("the handler saw %d left, want 4", left.Load())
	}
	s, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got := s.Trailer().Get("ratelimit"); len(got) != 1 || got[0] != `"api";r=3;t=12` {
		t.Errorf("ratelimit of a stream %q", got)
	}
}

// Exactly what the limit allows gets to the handler, however many ask at once.
func TestServerAdmitsExactlyTheLimit(t *testing.T) {
	const burst, callers, each = 50, 16, 10
	api := newLimiter(t, "50/h", "ip")
	var handled atomic.Int64
	svc := &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		handled.Add(1)
		return &testgrpc.SimpleResponse{}, nil
	}}
	addr := serve(t, newServer(t, api, nil), svc)
	var passed, refused atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		c := dial(t, addr, nil)
		wg.Go(func() {
			for range each {
				_, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
				if err == nil {
					passed.Add(1)
					continue
				}
				wantCode(t, err, codes.ResourceExhausted)
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != burst || handled.Load() != burst || refused.Load() != callers*each-burst {
		t.Errorf("passed %d, handled %d, refused %d", passed.Load(), handled.Load(), refused.Load())
	}
}

func TestServerCost(t *testing.T) {
	api := newLimiter(t, "10/h", "ip")
	cost := func(c *Call) int64 {
		if r, ok := c.Message().(*testgrpc.SimpleRequest); ok {
			return int64(r.GetResponseSize())
		}
		return 1
	}
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{Cost: cost}), &service{}), nil)
	for _, step := range []struct {
		size int32
		want codes.Code
	}{{8, codes.OK}, {3, codes.ResourceExhausted}, {2, codes.OK}, {0, codes.OK}, {-5, codes.OK}, {1, codes.ResourceExhausted}} {
		_, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{ResponseSize: step.size})
		if got := codeOf(err); got != step.want {
			t.Errorf("cost %d: %v, want %v", step.size, got, step.want)
		}
	}
}

func TestServerSkips(t *testing.T) {
	api := newLimiter(t, "none", "ip")
	skip := func(c *Call) bool { return c.Method() == emptyMethod || c.Stream() }
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{Skip: skip}), &service{}), nil)
	wantCode(t, call(t, c), codes.ResourceExhausted)
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Error(err)
	}
	s, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A limit that is reached does not make the server look ill, unless one asks for that.
func TestServerProbes(t *testing.T) {
	for _, charge := range []bool{false, true} {
		api := newLimiter(t, "none", "ip")
		limit := newServer(t, api, &ServerConfig{ChargeProbes: charge})
		healthServer := health.NewServer()
		t.Cleanup(healthServer.Shutdown)
		cc := connect(t, serve(t, limit, &service{}, func(s *grpc.Server) {
			healthgrpc.RegisterHealthServer(s, healthServer)
			reflection.Register(s)
		}), nil)
		want := codes.OK
		if charge {
			want = codes.ResourceExhausted
		}
		_, err := healthgrpc.NewHealthClient(cc).Check(t.Context(), &healthgrpc.HealthCheckRequest{})
		wantCode(t, err, want)
		s, err := reflectiongrpc.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = s.CloseSend()
		_, err = s.Recv()
		wantCode(t, ignoreEOF(err), want)
		wantCode(t, call(t, testgrpc.NewTestServiceClient(cc)), codes.ResourceExhausted)
	}
}

// A peer without an address is nobody's neighbour: it neither shares a bucket with others that have none, nor goes unseen.
func TestServerPeerWithoutAddress(t *testing.T) {
	api := newLimiter(t, "1/h", "ip")
	var log logBuffer
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, "unix:"+serveOn(t, l, newServer(t, api, &ServerConfig{Logger: log.logger()}), &service{}), nil)
	for range 3 {
		wantCode(t, call(t, c), codes.OK)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "set ClientIP") {
		t.Errorf("want one line that says what to do:\n%s", log.String())
	}
}

func TestServerWithoutDecision(t *testing.T) {
	cause := &tidegate.StoreError{Op: "take", Err: errors.New("secret:6379 is away")}
	t.Run("closed", func(t *testing.T) {
		var log logBuffer
		c := dial(t, serve(t, newServer(t, always(tidegate.Decision{}, cause), &ServerConfig{Logger: log.logger()}), &service{}), nil)
		for range 5 {
			err := call(t, c)
			wantCode(t, err, codes.Unavailable)
			if d, ok := RetryDelay(err); !ok || d != time.Second {
				t.Errorf("RetryDelay %v %v, want 1s", d, ok)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a client is told of the store: %v", err)
			}
		}
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "secret") {
			t.Errorf("want one line with the cause:\n%s", s)
		}
	})
	t.Run("open", func(t *testing.T) {
		svc := &service{unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			if _, ok := FromContext(ctx); ok {
				t.Error("a decision in the context, where there was none")
			}
			return &testgrpc.SimpleResponse{}, nil
		}}
		c := dial(t, serve(t, newServer(t, always(tidegate.Decision{}, cause), &ServerConfig{FailOpen: true}), svc), nil)
		wantCode(t, call(t, c), codes.OK)
	})
	t.Run("policy", func(t *testing.T) {
		deny := tidegate.Decision{Source: tidegate.SourceFallback, RetryAfter: 2 * time.Second, Rule: "api"}
		// A policy decides also where FailOpen is set: it is a decision.
		c := dial(t, serve(t, newServer(t, always(deny, nil), &ServerConfig{FailOpen: true}), &service{}), nil)
		var trailer metadata.MD
		err := call(t, c, grpc.Trailer(&trailer))
		wantCode(t, err, codes.Unavailable)
		if d, ok := RetryDelay(err); !ok || d != 2*time.Second {
			t.Errorf("RetryDelay %v %v, want 2s", d, ok)
		}
		if quotaOf(t, err) != nil || len(trailer.Get("ratelimit")) != 0 {
			t.Errorf("told of a quota that was not asked: %v, %v", err, trailer)
		}
	})
}

func TestServerConfigErrors(t *testing.T) {
	rate, permits := newLimiter(t, "1/s", ""), newLimiter(t, "2 concurrent", "")
	for _, c := range []struct {
		decider tidegate.Decider
		cfg     *ServerConfig
		want    string
	}{
		{nil, nil, "the decider is nil"},
		{(*tidegate.Limiter)(nil), nil, "did tidegate.New return an error?"},
		{permits, nil, "set it as Permits"},
		{rate, &ServerConfig{Permits: rate}, "not one of permits"},
		{rate, &ServerConfig{PermitsBy: "method"}, "Permits is not set"},
		{rate, &ServerConfig{MaxWait: -1}, "MaxWait"},
		{rate, &ServerConfig{MaxWaiting: -1}, "MaxWaiting"},
		{rate, &ServerConfig{IPv6Prefix: 129}, "IPv6Prefix"},
		{rate, &ServerConfig{IPv6Prefix: -1}, "IPv6Prefix"},
	} {
		_, err := NewServer(c.decider, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
	// All faults are told at once.
	_, err := NewServer(nil, &ServerConfig{MaxWait: -1, IPv6Prefix: 200})
	if n := strings.Count(err.Error(), "grpclimit: "); n != 3 {
		t.Errorf("%d faults told, want 3: %v", n, err)
	}
}
