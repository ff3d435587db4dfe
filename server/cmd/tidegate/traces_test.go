package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector is a receiver of OTLP: it keeps what it is sent.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*tracev1.Span
	text  strings.Builder // all that was sent, to look for what must not be
	about map[string]string
}

// Export implements the service over gRPC.
func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(req.String())
	for _, rs := range req.GetResourceSpans() {
		c.about = attributesOf(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			c.spans = append(c.spans, ss.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is the same over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req collectorv1.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &req)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// listenGRPC serves the collector over gRPC until the test ends.
func (c *collector) listenGRPC(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func (c *collector) listenHTTP(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// named are the spans of a name.
func (c *collector) named(name string) []*tracev1.Span {
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *tracev1.Span) bool { return s.GetName() != name })
}

func attributesOf(kvs []*commonv1.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range kvs {
		text := kv.GetValue().String()
		if s, ok := kv.GetValue().GetValue().(*commonv1.AnyValue_StringValue); ok {
			text = s.StringValue
		}
		m[kv.GetKey()] = text
	}
	return m
}

const (
	traceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID  = "00f067aa0ba902b7"
	traceLine = "00-" + traceID + "-" + parentID + "-01"
	secretKey = "user-secret-7"
)

// TestTraces sends requests of both kinds to a service, and looks at what it tells a collector over each protocol.
func TestTraces(t *testing.T) {
	for name, c := range map[string]struct {
		flag      func(t *testing.T, c *collector) []string
		environ   func(t *testing.T, c *collector)
		nameThere string
	}{
		"http": {
			flag: func(t *testing.T, c *collector) []string {
				t.Helper()
				return []string{"--otlp-endpoint", "http://" + c.listenHTTP(t)}
			},
			nameThere: "tidegate",
		},
		"grpc": {
			flag: func(t *testing.T, c *collector) []string {
				t.Helper()
				return []string{"--otlp-endpoint", "grpc://" + c.listenGRPC(t)}
			},
			nameThere: "tidegate",
		},
		"environment": {
			environ: func(t *testing.T, c *collector) {
				t.Helper()
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+c.listenGRPC(t))
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
				t.Setenv("OTEL_SERVICE_NAME", "edge")
			},
			nameThere: "edge",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := &collector{}
			var args []string
			if c.environ != nil {
				c.environ(t, got)
			} else {
				args = c.flag(t, got)
			}
			trafficWith(t, args...)
			got.mu.Lock()
			defer got.mu.Unlock()
			if got.about["service.name"] != c.nameThere || got.about["service.version"] == "" {
				t.Errorf("the spans are of %v, want the service %s and its version", got.about, c.nameThere)
			}
			wantSpans(t, got)
		})
	}
}

// trafficWith takes over HTTP and over gRPC from a service, and ends it, so that all spans are sent.
func trafficWith(t *testing.T, args ...string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(
		"domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 100}\n"), 0o600))
	s := serve(t, append([]string{"--grpc", "127.0.0.1:0", "--envoy-config", dir}, args...)...)
	text, _ := s.stderr.text()
	address := regexp.MustCompile(`gRPC on (\S+)`).FindStringSubmatch(text)[1]

	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/take", bytes.NewReader([]byte(`{"rule":"example","key":"`+secretKey+`"}`)))
	must(t, err)
	req.Header.Set("Traceparent", traceLine)
	for _, r := range []*http.Request{req, mustRequest(t, s.url+"/healthz"), mustRequest(t, s.url+"/"+secretKey)} {
		resp, err := testClient.Do(r)
		must(t, err)
		must(t, resp.Body.Close())
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceLine)
	_, err = ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain:      "edge",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: secretKey}}}},
	})
	must(t, err)
	s.stop(t)
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	must(t, err)
	return r
}

func wantSpans(t *testing.T, got *collector) {
	t.Helper()
	if strings.Contains(got.text.String(), secretKey) {
		t.Error("a span tells a key")
	}
	takes := got.named("store take")
	if len(takes) != 2 {
		t.Fatalf("there are %d spans of takes, want 2: %v", len(takes), got.spans)
	}
	for name, rule := range map[string]string{
		"POST /v1/take": "example",
		"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": "edge/user",
	} {
		spans := got.named(name)
		if len(spans) != 1 {
			t.Fatalf("there are %d spans %s, want 1: %v", len(spans), name, got.spans)
		}
		span := spans[0]
		if span.GetKind() != tracev1.Span_SPAN_KIND_SERVER || hexOf(span.GetTraceId()) != traceID || hexOf(span.GetParentSpanId()) != parentID {
			t.Errorf("%s is not the server's part of the client's trace: %v", name, span)
		}
		below := slices.IndexFunc(takes, func(s *tracev1.Span) bool { return bytes.Equal(s.GetParentSpanId(), span.GetSpanId()) })
		if below < 0 {
			t.Errorf("no call of the store is below %s", name)
			continue
		}
		a := attributesOf(takes[below].GetAttributes())
		if a["tidegate.rule"] != rule || !strings.Contains(a["tidegate.rules"], rule) || a["tidegate.source"] != "store" {
			t.Errorf("the take of %s tells %v, want the rule %s", name, a, rule)
		}
	}
	if a := attributesOf(got.named("POST /v1/take")[0].GetAttributes()); a["http.route"] != "/v1/take" || !strings.Contains(a["http.response.status_code"], "200") {
		t.Errorf("the span of a take tells %v", a)
	}
	if len(got.named("GET /")) != 1 || len(got.named("GET /healthz")) != 0 {
		t.Error("a path that does not exist has no span, or a probe has one")
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// TestTracesWithoutCollector holds the service to deciding and ending as ever while nobody takes its spans.
func TestTracesWithoutCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := l.Addr().String()
	must(t, l.Close())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	s := serve(t, "--otlp-endpoint", "http://"+nobody)
	for range 50 {
		if a, err := s.take(`{"rule":"example","key":"k"}`); err != nil || a.status >= 500 {
			t.Fatal(a, err)
		}
	}
	s.awaits(t, "spans could not be sent")
	s.stop(t)
	if text, _ := s.stderr.text(); strings.Count(text, "spans could not be sent") != 1 {
		t.Errorf("the log says it more than once:\n%s", text)
	}
}
