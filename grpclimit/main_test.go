package grpclimit

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	unaryMethod  = "/grpc.testing.TestService/UnaryCall"
	emptyMethod  = "/grpc.testing.TestService/EmptyCall"
	duplexMethod = "/grpc.testing.TestService/FullDuplexCall"
)

// newLimiter returns a limiter of the limit, as text, whose buckets go by the attribute.
func newLimiter(tb testing.TB, limit, keyBy string) *tidegate.Limiter {
	tb.Helper()
	l, err := tidegate.ParseLimit(limit)
	if err != nil {
		tb.Fatal(err)
	}
	store := memstore.New(nil)
	tb.Cleanup(func() { store.Close() })
	return newLimiterOn(tb, store, l, keyBy)
}

func newLimiterOn(tb testing.TB, store tidegate.Store, l tidegate.Limit, keyBy string) *tidegate.Limiter {
	tb.Helper()
	api, err := tidegate.New(store, l, &tidegate.Config{Rule: "api", KeyBy: keyBy})
	if err != nil {
		tb.Fatal(err)
	}
	return api
}

func newServer(tb testing.TB, d tidegate.Decider, cfg *ServerConfig) *Server {
	tb.Helper()
	s, err := NewServer(d, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func newClient(tb testing.TB, d tidegate.Decider, cfg *ClientConfig) *Client {
	tb.Helper()
	c, err := NewClient(d, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// deciderFunc is a Decider without a store.
type deciderFunc func(ctx context.Context, a tidegate.Attributes, cost int64) (tidegate.Decision, error)

func (f deciderFunc) Decide(ctx context.Context, a tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	return f(ctx, a, cost)
}

// always returns a Decider that answers the same to all.
func always(d tidegate.Decision, err error) deciderFunc {
	return func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) { return d, err }
}

// service answers as its functions do.
type service struct {
	testgrpc.UnimplementedTestServiceServer

	unary  func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	duplex func(grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error
}

func (s *service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

func (s *service) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.unary == nil {
		return &testgrpc.SimpleResponse{}, nil
	}
	return s.unary(ctx, r)
}

func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse],
) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	return echo(stream)
}

// echo answers each message with one.
func echo(stream grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return ignoreEOF(err)
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
			return err
		}
	}
}

// serve runs a server on the loopback and returns its address. Without a limit it has no interceptors.
func serve(tb testing.TB, limit *Server, svc *service, register ...func(*grpc.Server)) string {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return serveOn(tb, l, limit, svc, register...)
}

func serveOn(tb testing.TB, l net.Listener, limit *Server, svc *service, register ...func(*grpc.Server)) string {
	tb.Helper()
	var opts []grpc.ServerOption
	if limit != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	}
	server := grpc.NewServer(opts...)
	testgrpc.RegisterTestServiceServer(server, svc)
	for _, r := range register {
		r(server)
	}
	var done sync.WaitGroup
	done.Go(func() {
		if err := server.Serve(l); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() {
		server.Stop()
		done.Wait()
	})
	return l.Addr().String()
}

// connect returns a connection, with the interceptors of the client, if there are any.
func connect(tb testing.TB, addr string, limit *Client, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if limit != nil {
		opts = append(opts, grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
	}
	cc, err := grpc.NewClient(addr, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { cc.Close() })
	return cc
}

func dial(tb testing.TB, addr string, limit *Client, opts ...grpc.DialOption) testgrpc.TestServiceClient {
	tb.Helper()
	return testgrpc.NewTestServiceClient(connect(tb, addr, limit, opts...))
}

// call makes a unary call.
func call(tb testing.TB, c testgrpc.TestServiceClient, opts ...grpc.CallOption) error {
	tb.Helper()
	_, err := c.UnaryCall(tb.Context(), &testgrpc.SimpleRequest{}, opts...)
	return err
}

func wantCode(tb testing.TB, err error, code codes.Code) {
	tb.Helper()
	if got := status.Code(err); got != code {
		tb.Fatalf("got %v, want %v: %v", got, code, err)
	}
}

// quotaOf returns the only violation of the status, nil if there is none.
func quotaOf(tb testing.TB, err error) *errdetails.QuotaFailure_Violation {
	tb.Helper()
	for _, detail := range status.Convert(err).Details() {
		if q, ok := detail.(*errdetails.QuotaFailure); ok {
			if len(q.GetViolations()) != 1 {
				tb.Fatalf("%d violations, want 1", len(q.GetViolations()))
			}
			return q.GetViolations()[0]
		}
	}
	return nil
}

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// eventually polls until ok does, and fails the test when it does not.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not in 10 s: %s", what)
		}
	}
}
