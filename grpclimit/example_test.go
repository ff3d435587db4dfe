package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/grpclimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/memstore"
)

// greeter stands for a service of yours.
type greeter struct {
	testgrpc.UnimplementedTestServiceServer
}

// UnaryCall answers a call.
func (greeter) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{}, nil
}

// StreamingInputCall counts what is sent to it.
func (greeter) StreamingInputCall(
	s grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse],
) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

// run serves the greeter on the loopback, calls do with a client of it, and stops both.
func run(server []grpc.ServerOption, client []grpc.DialOption, do func(testgrpc.TestServiceClient)) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := grpc.NewServer(server...)
	testgrpc.RegisterTestServiceServer(s, greeter{})
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(l); err != nil {
			fmt.Println(err)
		}
	})
	defer done.Wait()
	defer s.Stop()
	cc, err := grpc.NewClient(l.Addr().String(), append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cc.Close()
	do(testgrpc.NewTestServiceClient(cc))
}

// A server that lets each client address make two calls an hour.
func Example() {
	store := memstore.New(nil) // redisstore.Open(url, nil) shares the buckets with other replicas; nothing else changes
	defer store.Close()
	api, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewServer(api, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := []grpc.ServerOption{grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream)}

	run(server, nil, func(c testgrpc.TestServiceClient) {
		for range 3 {
			_, err := c.UnaryCall(context.Background(), &testgrpc.SimpleRequest{})
			fmt.Print(status.Code(err))
			if d, ok := grpclimit.RetryDelay(err); ok {
				fmt.Print(": try again in ", d.Round(time.Minute))
			}
			fmt.Println()
		}
	})
	// Output:
	// OK
	// OK
	// ResourceExhausted: try again in 30m0s
}

// A client of a service that allows a hundred calls a second: it waits for its turn for up to a second. What the server
// itself says of when to come again is obeyed, too.
func ExampleClient() {
	store := memstore.New(nil)
	defer store.Close()
	// An outgoing call has no "ip", which is the default of KeyBy: this is a limit for each server.
	out, err := tidegate.New(store, tidegate.Limit{Rate: 100, Per: time.Second, Burst: 1}, &tidegate.Config{KeyBy: "target"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewClient(out, &grpclimit.ClientConfig{MaxWait: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := []grpc.DialOption{grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream)}

	run(nil, client, func(c testgrpc.TestServiceClient) {
		start := time.Now()
		for range 6 {
			if _, err := c.UnaryCall(context.Background(), &testgrpc.SimpleRequest{}); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("six calls took 50 ms or more:", time.Since(start) >= 50*time.Millisecond)
	})
	// Output:
	// six calls took 50 ms or more: true
}

// Messages of a stream are charged as they arrive, by their size: here ten bytes an hour for each caller, who was
// authenticated by an interceptor that comes before.
func ExampleServer_messages() {
	type user struct{}
	authenticate := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, withContext{ss, context.WithValue(ss.Context(), user{}, "alice")}) // after a look at a token
	}
	store := memstore.New(nil)
	defer store.Close()
	api, err := tidegate.New(store, tidegate.Limit{Rate: 10, Per: time.Hour}, &tidegate.Config{KeyBy: "user"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewServer(api, &grpclimit.ServerConfig{
		Attribute: func(c *grpclimit.Call, name string) (string, bool) {
			if name != "user" {
				return "", false
			}
			u, ok := c.Context().Value(user{}).(string)
			return u, ok
		},
		Cost: func(*grpclimit.Call) int64 { return 0 }, // the stream as such is free
		ReceiveCost: func(c *grpclimit.Call) int64 {
			m, ok := c.Message().(*testgrpc.StreamingInputCallRequest)
			if !ok {
				return 1
			}
			return int64(len(m.GetPayload().GetBody()))
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	run([]grpc.ServerOption{grpc.ChainStreamInterceptor(authenticate, limit.Stream)}, nil, func(c testgrpc.TestServiceClient) {
		stream, err := c.StreamingInputCall(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for range 3 {
			// The second one is too much. What is wrong with a stream is told by CloseAndRecv, not by Send.
			_ = stream.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 6)}})
		}
		_, err = stream.CloseAndRecv()
		fmt.Println(status.Code(err))
	})
	// Output:
	// ResourceExhausted
}

// withContext is a stream with another context.
type withContext struct {
	grpc.ServerStream

	ctx context.Context
}

// Context returns it.
func (s withContext) Context() context.Context { return s.ctx }

// A guard for what a handler uses: at most two calls at once, of all clients together, besides the rate.
func ExampleServer_permits() {
	store := memstore.New(nil)
	defer store.Close()
	rate, err := tidegate.New(store, tidegate.Limit{Rate: 100, Per: time.Second}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := tidegate.New(store, tidegate.Limit{Rate: 2, Algorithm: tidegate.Concurrency}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewServer(rate, &grpclimit.ServerConfig{Permits: pool})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Three calls, each of which begins while the one before it runs.
	info := &grpc.UnaryServerInfo{FullMethod: "/example.Service/Query"}
	var query func(depth int) grpc.UnaryHandler
	query = func(depth int) grpc.UnaryHandler {
		return func(ctx context.Context, _ any) (any, error) {
			_, err := limit.Unary(ctx, nil, info, query(depth+1))
			if err != nil {
				fmt.Println("call", depth+1, "is refused:", status.Code(err) == codes.ResourceExhausted)
			}
			return "rows", nil
		}
	}
	_, err = limit.Unary(context.Background(), nil, info, query(1))
	fmt.Println("call 1:", status.Code(err))
	// Output:
	// call 3 is refused: true
	// call 1: OK
}

// Behind a proxy, every call comes from the proxy. Its x-forwarded-for says who the client is, but whoever else can reach the
// server writes what it likes there: it is believed of the proxy alone.
func ExampleServerConfig_clientIP() {
	proxies, err := clientip.New(&clientip.Config{Trusted: []string{"10.0.0.0/8"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	clientIP := func(c *grpclimit.Call) netip.Addr {
		p, ok := peer.FromContext(c.Context())
		if !ok {
			return netip.Addr{}
		}
		return proxies.Addr(p.Addr.String(), clientip.Lines(metadata.ValueFromIncomingContext(c.Context(), "x-forwarded-for")))
	}

	store := memstore.New(nil)
	defer store.Close()
	api, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewServer(api, &grpclimit.ServerConfig{ClientIP: clientIP})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(from, forwardedFor string) {
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-forwarded-for", forwardedFor))
		_, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/example.Service/Get"},
			func(context.Context, any) (any, error) { return "", nil })
		fmt.Println(from, "for", forwardedFor+":", status.Code(err))
	}
	call("10.0.0.1:50000", "203.0.113.7")
	call("10.0.0.2:50000", "203.0.113.7")
	call("198.51.100.9:50000", "192.0.2.1")
	call("198.51.100.9:50000", "192.0.2.2") // a new name each time, and yet the same caller
	// Output:
	// 10.0.0.1:50000 for 203.0.113.7: OK
	// 10.0.0.2:50000 for 203.0.113.7: ResourceExhausted
	// 198.51.100.9:50000 for 192.0.2.1: OK
	// 198.51.100.9:50000 for 192.0.2.2: ResourceExhausted
}

// A pitfall: metadata is what the caller wrote. A limit by it alone is no limit for one that writes something new each time:
// key by what your authentication found out, as in the example of messages, or have a second limit by ip.
func ExampleServer_pitfallMetadata() {
	store := memstore.New(nil)
	defer store.Close()
	api, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, &tidegate.Config{KeyBy: "metadata.x-api-key"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.NewServer(api, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	run([]grpc.ServerOption{grpc.UnaryInterceptor(limit.Unary)}, nil, func(c testgrpc.TestServiceClient) {
		passed := 0
		for i := range 100 {
			ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", fmt.Sprint("made up ", i))
			if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err == nil {
				passed++
			}
		}
		fmt.Println(passed, "of 100 passed a limit of one an hour")
	})
	// Output:
	// 100 of 100 passed a limit of one an hour
}
