package grpcserver

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

func TestHealthAndReflection(t *testing.T) {
	sv := serve(t, nil, nil)
	sv.SetServing("ratelimit", false)
	c := dial(t, sv.addr, nil)
	health := healthv1.NewHealthClient(c)
	for _, serving := range []bool{false, true} {
		sv.SetServing("ratelimit", serving)
		r, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "ratelimit"})
		if err != nil || (r.GetStatus() == healthv1.HealthCheckResponse_SERVING) != serving {
			t.Errorf("%v, %v, want serving %t", r, err, serving)
		}
	}
	if r, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("the server: %v, %v", r, err)
	}
	stream, err := reflectionv1.NewServerReflectionClient(c).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || !strings.Contains(r.String(), "test.Echo") || !strings.Contains(r.String(), "grpc.health.v1.Health") {
		t.Errorf("%v, %v", r, err)
	}
}

// What a config brings reads and writes the messages of all services.
func TestCodec(t *testing.T) {
	codec := &countingCodec{CodecV2: encoding.GetCodecV2(proto.Name)}
	sv := serve(t, &Config{Codec: codec}, nil)
	c := dial(t, sv.addr, nil, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.CodecV2)))
	if err := call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := healthv1.NewHealthClient(c).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if r, w := codec.read.Load(), codec.written.Load(); r != 2 || w != 2 {
		t.Errorf("%d messages read and %d written, want 2 and 2", r, w)
	}
}

type countingCodec struct {
	encoding.CodecV2
	read, written atomic.Int64
}

func (c *countingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	c.read.Add(1)
	return c.CodecV2.Unmarshal(data, v)
}

func (c *countingCodec) Marshal(v any) (mem.BufferSlice, error) {
	c.written.Add(1)
	return c.CodecV2.Marshal(v)
}

// A shutdown does not wait for those who watch the health, and tells them.
func TestWatchersDoNotHoldUpAShutdown(t *testing.T) {
	sv := serve(t, &Config{DrainTime: time.Minute}, nil)
	watch, err := healthv1.NewHealthClient(dial(t, sv.addr, nil)).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatal(r, err)
	}
	start := time.Now()
	sv.end()
	if err := sv.wait(); err != nil || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	for err == nil { // NOT_SERVING may come through before the end
		_, err = watch.Recv()
	}
}

// A request that runs is waited for, up to the drain time.
func TestDrain(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	sv := serve(t, nil, func(context.Context) error { close(begun); <-finish; return nil })
	answered := make(chan error, 1)
	c := dial(t, sv.addr, nil)
	go func() { answered <- call(t.Context(), c) }()
	<-begun
	sv.end()
	select {
	case err := <-sv.done:
		t.Fatalf("ended with %v while a request ran", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := sv.wait(); err != nil {
		t.Error(err)
	}

	begun = make(chan struct{})
	sv = serve(t, &Config{DrainTime: time.Millisecond}, func(ctx context.Context) error { close(begun); <-ctx.Done(); return nil })
	c = dial(t, sv.addr, nil)
	go func() { answered <- call(t.Context(), c) }()
	<-begun
	sv.end()
	if err := sv.wait(); err == nil || !strings.Contains(err.Error(), "requests still ran after 1ms and were cut off") {
		t.Errorf("%v", err)
	}
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("the one that was cut off: %v", err)
	}
}

// Under load one of two servers shuts down: clients that have the other one see no failure.
func TestNoRequestFailsInAShutdown(t *testing.T) {
	var a, b atomic.Int64
	one := serve(t, &Config{ShutdownDelay: 20 * time.Millisecond}, func(context.Context) error { a.Add(1); return nil })
	two := serve(t, nil, func(context.Context) error { b.Add(1); return nil })
	r := manual.NewBuilderWithScheme("both")
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
		{Addresses: []resolver.Address{{Addr: one.addr}}}, {Addresses: []resolver.Address{{Addr: two.addr}}},
	}})
	c := dial(t, "both:///", nil, grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := call(t.Context(), c, grpc.WaitForReady(true)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	until(t, func() bool { return a.Load() > 100 && b.Load() > 100 })
	one.end()
	if err := one.wait(); err != nil {
		t.Error(err)
	}
	n := b.Load()
	until(t, func() bool { return b.Load() > n+100 })
	close(stop)
	wg.Wait()
}

// Connections that are old are replaced, and no request notices.
func TestConnectionsAge(t *testing.T) {
	sv := serve(t, &Config{MaxConnectionAge: 50 * time.Millisecond, MaxConnectionAgeGrace: time.Second}, nil)
	c := dial(t, sv.addr, nil)
	states := 0
	for start := time.Now(); time.Since(start) < 500*time.Millisecond; {
		before := c.GetState()
		if err := call(t.Context(), c, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		if c.GetState() != before {
			states++
		}
	}
	if states < 2 {
		t.Errorf("the connection was replaced %d times in ten of its lives", states)
	}
}

// Beyond the bound a request is refused at once.
func TestRequestsAreBounded(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	sv := serve(t, &Config{MaxRequests: 1}, func(context.Context) error { begun <- struct{}{}; <-finish; return nil })
	c := dial(t, sv.addr, nil)
	answered := make(chan error, 1)
	go func() { answered <- call(t.Context(), c) }()
	<-begun
	if err := call(t.Context(), c); status.Code(err) != codes.Unavailable || sv.Rejected() != 1 {
		t.Errorf("%v; %d rejected", err, sv.Rejected())
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestPanicIsOneRequests(t *testing.T) {
	sv := serve(t, nil, func(context.Context) error { panic("oh") })
	c := dial(t, sv.addr, nil)
	for range 2 {
		if err := call(t.Context(), c); status.Code(err) != codes.Internal {
			t.Errorf("%v", err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := tempSocket(t)
	sv := serveOn(t, nil, nil, "unix:"+path)
	if err := call(t.Context(), dial(t, sv.addr, nil)); err != nil {
		t.Error(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that is listened on: %v", err)
	}
	sv.end()
	if err := sv.wait(); err != nil {
		t.Error(err)
	}
	// What a process that was killed leaves behind.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd)
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "is a file, and no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Listen(t.Context(), "unix:"); err == nil || !strings.Contains(err.Error(), "names no file") {
		t.Errorf("no name: %v", err)
	}
}

func TestConfigIsTold(t *testing.T) {
	for _, cfg := range []Config{{MaxConnectionAgeGrace: -1}, {MaxConnections: -1}, {MaxRequests: -1}, {ShutdownDelay: -1}, {DrainTime: -1}} {
		if _, err := New(&cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time")
		}
	}
}
