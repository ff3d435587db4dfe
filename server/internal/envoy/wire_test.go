package envoy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/server/internal/grpcserver"
)

// wired is a client of a service on a socket.
func wired(t *testing.T, s *Service) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	return ratelimitv3.NewRateLimitServiceClient(connected(t, s))
}

// connected is a connection to a service on a socket.
func connected(tb testing.TB, s *Service) *grpc.ClientConn {
	tb.Helper()
	server, err := grpcserver.New(&grpcserver.Config{Codec: Codec()})
	if err != nil {
		tb.Fatal(err)
	}
	s.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return c
}

// A client of the published protocol, 64 at once, over Redis: no error, and as many pass as the limits say, in all
// algorithms, with one descriptor and with ten.
func TestConcurrentClients(t *testing.T) {
	srv := redistest.Start(t)
	store, err := redisstore.Open(srv.URL(), &redisstore.Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, algorithm := range Algorithms() {
		for _, n := range []int{1, 10} {
			m := NewMetrics()
			var decided atomic.Int64
			s, err := NewService(ServiceConfig{Store: store, Metrics: m, Decided: func(*tidegate.Decision) { decided.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			text := "domain: " + algorithm + "\ndescriptors:\n- key: all\n  rate_limit: {unit: year, requests_per_unit: 500}\n"
			for _, key := range "bcdefghij" {
				text += "- key: " + string(key) + "\n  rate_limit: {unit: year, requests_per_unit: 100000}\n"
			}
			c, err := Parse([]File{{Name: "a.yaml", Text: []byte(text)}}, Options{Algorithm: algorithm})
			if err != nil {
				t.Fatal(err)
			}
			s.Set(c)
			client := wired(t, s)
			value := "of " + string(rune('0'+n/10))
			var passed atomic.Int64
			var wg sync.WaitGroup
			const callers, each = 64, 20
			for range callers {
				wg.Go(func() {
					for range each {
						req := &ratelimitv3.RateLimitRequest{Domain: algorithm}
						for _, key := range "abcdefghij"[:n] {
							name := string(key)
							if name == "a" {
								name = "all"
							}
							req.Descriptors = append(req.Descriptors, parseDescriptor(t, name+"="+value))
						}
						resp, err := client.ShouldRateLimit(t.Context(), req)
						if err != nil {
							t.Error(err)
							return
						}
						if resp.GetOverallCode() == codeOK {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if passed.Load() != 500 || decided.Load() != callers*each {
				t.Errorf("%s, %d descriptors: %d passed of a limit of 500, %d decided", algorithm, n, passed.Load(), decided.Load())
			}
			if n == 10 { // a refused request charges none of its descriptors
				req := &ratelimitv3.RateLimitRequest{Domain: algorithm}
				req.Descriptors = append(req.Descriptors, parseDescriptor(t, "b="+value+"@0"))
				if resp, err := client.ShouldRateLimit(t.Context(), req); err != nil || resp.GetStatuses()[0].GetLimitRemaining() != 99_500 {
					t.Errorf("%s: %v, %v; want 99500 remaining", algorithm, resp, err)
				}
			}
			r := prometheus.NewPedanticRegistry()
			r.MustRegister(m)
			for _, f := range gather(t, r) {
				if f.GetName() == "ratelimit_service_total_requests" && f.GetMetric()[0].GetUntyped().GetValue() < callers*each {
					t.Errorf("%v", f)
				}
			}
		}
	}
}

// What went wrong is said in the codes of gRPC.
func TestCodes(t *testing.T) {
	srv := redistest.Start(t)
	store, err := redisstore.Open(srv.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := NewMetrics()
	s, err := NewService(ServiceConfig{Store: store, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	client := wired(t, s)
	want := func(code codes.Code, domain string, descriptors ...string) {
		t.Helper()
		req := &ratelimitv3.RateLimitRequest{Domain: domain}
		for _, d := range descriptors {
			req.Descriptors = append(req.Descriptors, parseDescriptor(t, d))
		}
		if _, err := client.ShouldRateLimit(t.Context(), req); status.Code(err) != code {
			t.Errorf("%v, want %v", err, code)
		}
	}
	want(codes.Unavailable, "d", "k=v")
	if m.badRequests.Load() != 1 {
		t.Errorf("%d service errors", m.badRequests.Load())
	}
	s.Set(mustParse(t, limitsOf("d")))
	want(codes.OK, "d", "k=v")
	want(codes.InvalidArgument, "", "k=v")
	want(codes.InvalidArgument, "d")
	srv.Stop()
	want(codes.Unavailable, "d", "k=v")
	if m.storeErrors.Load() != 1 || m.badRequests.Load() != 3 {
		t.Errorf("%d store errors, %d service errors", m.storeErrors.Load(), m.badRequests.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := coded(ctx.Err()); status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
}
