package grpcserver

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a service with one method, which does what a test wants.
type echo func(ctx context.Context) error

const echoMethod = "/test.Echo/Do"

func (e echo) register(s *Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: echoMethod}, func(ctx context.Context, _ any) (any, error) {
				return in, e(ctx)
			})
		}}},
	}, e)
}

// served is a server under way.
type served struct {
	*Server
	addr string
	end  context.CancelFunc
	done chan error
}

func serve(t *testing.T, cfg *Config, e echo) *served {
	t.Helper()
	return serveOn(t, cfg, e, "127.0.0.1:0")
}

func serveOn(t *testing.T, cfg *Config, e echo, address string) *served {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		e = func(context.Context) error { return nil }
	}
	e.register(s)
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, address)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	sv := &served{Server: s, addr: l.Addr().String(), end: cancel, done: make(chan error, 1)}
	if l.Addr().Network() == "unix" {
		sv.addr = "unix:" + sv.addr
	}
	go func() { sv.done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		_ = sv.wait() // the test has asked, if it is about that
	})
	return sv
}

// wait returns what Serve did.
func (sv *served) wait() error {
	err := <-sv.done
	sv.done <- err
	return err
}

// dial connects; nil credentials are none.
func dial(t *testing.T, target string, creds credentials.TransportCredentials, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	c, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func call(ctx context.Context, c *grpc.ClientConn, options ...grpc.CallOption) error {
	return c.Invoke(ctx, echoMethod, &emptypb.Empty{}, &emptypb.Empty{}, options...)
}

func tempSocket(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "s")
}
