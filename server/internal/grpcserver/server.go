package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// What clients may take their time with and ask for, so that neither slow nor greedy ones pile up.
const (
	handshakeTimeout = 10 * time.Second // until a connection has said that it speaks HTTP/2
	maxMessage       = 1 << 20
	maxHeader        = 64 << 10
	maxStreams       = 1000 // of one connection at once
	streamWindow     = 64 << 10
	connWindow       = 1 << 20
	pingAfter        = time.Minute
	pingTimeout      = 20 * time.Second
	workers          = 64              // goroutines whose stacks have grown already, and stay in the caches; beyond, each request has its own
	minPing          = 5 * time.Second // a client that pings more often is closed
)

// Config says how a [Server] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// TLS is how connections are secured. Default: none, they are not.
	TLS *tls.Config
	// MaxConnectionAge is how old a connection gets, give or take a tenth, before its client is asked to make a new one, so
	// that clients find replicas that came later. Default: 24 h. Negative: no bound.
	MaxConnectionAge time.Duration
	// MaxConnectionAgeGrace is how long such a connection may then still finish its requests. Default: 1 h.
	MaxConnectionAgeGrace time.Duration
	// MaxConnections bounds the connections; further ones wait to be accepted. Default: 10,000.
	MaxConnections int
	// MaxRequests bounds the requests that are answered at once; one more is UNAVAILABLE. Default: 10,000.
	MaxRequests int
	// ShutdownDelay is how long the server goes on as before, but for its health, once it is told to shut down. Default: 0.
	ShutdownDelay time.Duration
	// DrainTime is how long a shutdown then waits for the requests that are running. Default: 10 s.
	DrainTime time.Duration
	// Codec reads and writes the messages of all services. Default: the library's.
	Codec encoding.CodecV2
	// Traces makes a span of each request. Default: none, and then they cost nothing.
	Traces trace.TracerProvider
	// Logger is told of panics. Default: none, nothing is logged.
	Logger *slog.Logger
}

func (c *Config) normalize() error {
	if c.MaxConnectionAgeGrace < 0 || c.MaxConnections < 0 || c.MaxRequests < 0 || c.ShutdownDelay < 0 || c.DrainTime < 0 {
		return errors.New("grpcserver: MaxConnectionAgeGrace, MaxConnections, MaxRequests, ShutdownDelay and DrainTime " +
			"must not be negative: leave them 0 for the default")
	}
	orDefault(&c.MaxConnectionAge, 24*time.Hour)
	orDefault(&c.MaxConnectionAgeGrace, time.Hour)
	orDefault(&c.MaxConnections, 10_000)
	orDefault(&c.MaxRequests, 10_000)
	orDefault(&c.DrainTime, 10*time.Second)
	if c.MaxConnectionAge < 0 {
		c.MaxConnectionAge = 0 // no bound, as the library has it
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func orDefault[T comparable](v *T, byDefault T) {
	var zero T
	if *v == zero {
		*v = byDefault
	}
}

// A Server serves what is registered with it. Create it with [New].
type Server struct {
	cfg      Config
	grpc     *grpc.Server
	health   *health.Server
	running  atomic.Int64
	rejected atomic.Uint64
	draining context.Context //nolint:containedctx // it ends when streams are to end, whoever made them
	drain    context.CancelFunc
}

// New returns a server with health and reflection. A nil config is the default. Register services before [Server.Serve].
func New(cfg *Config) (*Server, error) {
	s := &Server{health: health.NewServer()}
	if cfg != nil {
		s.cfg = *cfg
	}
	if err := s.cfg.normalize(); err != nil {
		return nil, err
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      s.cfg.MaxConnectionAge,
			MaxConnectionAgeGrace: s.cfg.MaxConnectionAgeGrace,
			Time:                  pingAfter,
			Timeout:               pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	}
	if s.cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.cfg.TLS)))
	}
	if s.cfg.Codec != nil {
		options = append(options, grpc.ForceServerCodecV2(s.cfg.Codec))
	}
	s.grpc = grpc.NewServer(append(options, traced(s.cfg.Traces)...)...)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// RegisterService implements [grpc.ServiceRegistrar].
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
}

// SetServing says how a service does to those who ask for its health by the name; the empty name is the server.
func (s *Server) SetServing(name string, serving bool) {
	st := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		st = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(name, st)
}

// Rejected is how many requests were not answered because too many ran.
func (s *Server) Rejected() uint64 { return s.rejected.Load() }

// unary bounds the requests that run, and keeps a panic from ending the process.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer s.running.Add(-1)
	if s.running.Add(1) > int64(s.cfg.MaxRequests) {
		s.rejected.Add(1)
		return nil, status.Error(codes.Unavailable, "too many requests run at once")
	}
	defer s.recovered(info.FullMethod, &err)
	return handle(ctx, req)
}

// stream ends with the server's will to serve: a client that watches its health would hold up a shutdown for ever.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer s.running.Add(-1)
	if s.running.Add(1) > int64(s.cfg.MaxRequests) {
		s.rejected.Add(1)
		return status.Error(codes.Unavailable, "too many requests run at once")
	}
	defer s.recovered(info.FullMethod, &err)
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	stop := context.AfterFunc(s.draining, cancel)
	defer stop()
	return handle(srv, &endingStream{ss, ctx})
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream is where gRPC keeps it
}

// Context ends with the server's will to serve.
func (s *endingStream) Context() context.Context { return s.ctx }

// RecvMsg returns when the context ends, which the stream below does not know of.
func (s *endingStream) RecvMsg(m any) error {
	if err := s.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return s.ServerStream.RecvMsg(m)
}

func (s *Server) recovered(method string, err *error) {
	p := recover() //nolint:revive // it is deferred by both interceptors
	if p == nil {
		return
	}
	s.cfg.Logger.Error("a request panicked", slog.String("method", method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	*err = status.Error(codes.Internal, "the server failed on this request; its log says how")
}

// Serve answers what the listener accepts until ctx ends. It then shuts down: health says NOT_SERVING, and after
// ShutdownDelay the listener is closed, clients are told to go elsewhere, and running requests are given DrainTime. It
// returns nil if all of them were answered, and says otherwise what went wrong. It closes the listener in any case. A
// Server serves once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.drain()
	ended := make(chan error, 1)
	wg.Go(func() { ended <- s.grpc.Serve(netutil.LimitListener(l, s.cfg.MaxConnections)) })
	select {
	case err := <-ended:
		return fmt.Errorf("grpcserver: the listener failed: %w", err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	if s.cfg.ShutdownDelay > 0 {
		timer := time.NewTimer(s.cfg.ShutdownDelay)
		defer timer.Stop()
		select {
		case err := <-ended:
			return fmt.Errorf("grpcserver: the listener failed: %w", err)
		case <-timer.C:
		}
	}
	return s.stop(&wg)
}

// stop ends the streams, and waits for the requests.
func (s *Server) stop(wg *sync.WaitGroup) error {
	s.drain()
	stopped := make(chan struct{})
	wg.Go(func() {
		s.grpc.GracefulStop()
		close(stopped)
	})
	timer := time.NewTimer(s.cfg.DrainTime)
	defer timer.Stop()
	select {
	case <-stopped:
		return nil
	case <-timer.C:
	}
	cut := s.running.Load()
	s.grpc.Stop()
	if cut == 0 {
		return nil // connections that only lay there
	}
	return fmt.Errorf("grpcserver: requests still ran after %v and were cut off", s.cfg.DrainTime)
}
