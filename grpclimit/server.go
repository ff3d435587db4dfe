package grpclimit

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
)

// ServerConfig says how a [Server] works. The zero ServerConfig, like a nil one, is the documented default.
//
// Its functions are called for every call, from many goroutines at once.
type ServerConfig struct {
	// Cost is what a call costs; one of 0 or less lets it pass without a charge. A stream is charged when it starts.
	// Default: 1.
	Cost func(*Call) int64
	// ReceiveCost is what a message costs that a stream's client sent, besides the stream itself. It is charged when it has
	// arrived, before the handler gets it; a refusal is what RecvMsg returns from then on. Default: nothing.
	ReceiveCost func(*Call) int64
	// SendCost is what a message costs that a stream's handler sends. It is charged before it is sent; a refusal is what
	// SendMsg returns, and the message was not sent. Default: nothing.
	SendCost func(*Call) int64
	// Skip lets a call pass as if there were no limit: no charge, no permit. Default: none but what ChargeProbes says.
	Skip func(*Call) bool
	// ChargeProbes charges health checks (grpc.health.v1) and reflection (grpc.reflection.v1, v1alpha) like other calls.
	// Default: they always pass, so that a limit that is reached does not look like a server that is ill.
	ChargeProbes bool
	// Attribute returns attributes of your own, such as the user whom your authentication put into the context. It is asked
	// first for every name, also for those that a [Call] has; its false leaves the name to the call. Default: none.
	Attribute func(c *Call, name string) (value string, ok bool)
	// ClientIP returns the client's address where that is not the peer's, as behind a proxy; a zero one if it is not known.
	// Metadata such as x-forwarded-for is what the client wrote unless your proxy replaces it. Default: the peer's address.
	ClientIP func(*Call) netip.Addr
	// IPv6Prefix is how many bits of an IPv6 address are a client: it can choose the rest as it likes. 1 to 128.
	// Default: 64.
	IPv6Prefix int
	// Permits limits the calls in flight: a limiter of permits, such as "20 concurrent". A call holds one until its handler
	// has returned; it is renewed as long as that takes. One that finds none is refused, and charged nothing. Rules of permits
	// in an engine that is the decider are kept in the same way, without this.
	// Default: none.
	Permits *tidegate.Limiter
	// PermitsBy is the attribute by which permits are counted, such as "method". Default: none, all calls together.
	PermitsBy string
	// MaxWait is how long a call or message may wait for its turn; one for which that, or what its context leaves, is too
	// short is refused at once. Turns come in order, across replicas, under a [tidegate.Holder], as limiters and engines are; of
	// sliding logs and of an engine's permits, and under other deciders, who asks when there is room passes. Those of Permits are not
	// waited for, nor does it bound the queue of a leaky bucket.
	// Default: 0, none waits.
	MaxWait time.Duration
	// MaxWaiting is how many may so wait at once; one more is refused at once. Default: 100.
	MaxWaiting int64
	// FailOpen lets calls pass for which no decision could be made, since the store failed and nothing stands in for it.
	// Default: false, they are refused with UNAVAILABLE. Rules with a policy decide by that instead, and either way.
	FailOpen bool
	// Outcome is told how each call that passed ended, and how long its handler took: nil, or the handler's error. A handler that
	// panicked is told of with status INTERNAL. It is how a breaker for what is behind the handlers learns; see package guard.
	// Default: nobody is.
	Outcome func(c *Call, err error, took time.Duration)
	// TellAllowed sends the trailers ratelimit-policy and ratelimit also where a call passes. Default: false.
	TellAllowed bool
	// Logger is told when no decision can be made, and of attributes that can never be there, never of single calls.
	// Default: nobody is.
	Logger *slog.Logger
}

// A Server is the interceptors of a gRPC server. It is safe for concurrent use; create it with [NewServer].
type Server struct {
	gate         gate
	chargeProbes bool
	tellAllowed  bool
	outcome      func(c *Call, err error, took time.Duration)
}

// NewServer returns interceptors that let calls pass as the decider says. A nil config is the default.
// The error says what is wrong with the config.
func NewServer(decider tidegate.Decider, cfg *ServerConfig) (*Server, error) {
	if cfg == nil {
		cfg = &ServerConfig{}
	}
	s := &Server{
		gate: gate{
			decider:    decider,
			cost:       cfg.Cost,
			skip:       cfg.Skip,
			receive:    cfg.ReceiveCost,
			send:       cfg.SendCost,
			attribute:  cfg.Attribute,
			clientIP:   cfg.ClientIP,
			ipv6Prefix: cfg.IPv6Prefix,
			permits:    permits{limiter: cfg.Permits, by: cfg.PermitsBy},
			maxWait:    cfg.MaxWait,
			maxWaiting: cfg.MaxWaiting,
			failOpen:   cfg.FailOpen,
			log:        cfg.Logger,
		},
		chargeProbes: cfg.ChargeProbes,
		tellAllowed:  cfg.TellAllowed,
		outcome:      cfg.Outcome,
	}
	if err := s.gate.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// Unary is a [grpc.UnaryServerInterceptor].
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.isProbe(info.FullMethod) {
		return handler(ctx, req)
	}
	cc := &callContext{Context: ctx, call: Call{gate: &s.gate, ctx: ctx, method: info.FullMethod, message: req}}
	if s.gate.skip != nil && s.gate.skip(&cc.call) {
		return handler(ctx, req)
	}
	permit, err := s.admit(&cc.call)
	defer permit.release()
	if err != nil {
		setTrailer(ctx, &s.gate, err)
		return nil, err
	}
	if s.tellAllowed && cc.call.decided {
		md := metadata.MD{}
		s.gate.addFields(md, &cc.call.decision)
		_ = grpc.SetTrailer(ctx, md) // fails where there is no transport, as in a test that calls the interceptor
	}
	if s.outcome == nil {
		return handler(cc, req)
	}
	return s.handleUnary(cc, req, handler)
}

// handleUnary lets the handler answer the call, and tells how that ended.
func (s *Server) handleUnary(cc *callContext, req any, handler grpc.UnaryHandler) (any, error) {
	tell := s.told(&cc.call)
	defer tell(nil)
	resp, err := handler(cc, req)
	tell(&err)
	return resp, err
}

// told returns what tells how a call whose handler begins now has ended: at its first call, with the error; or with nil, for a
// handler that has panicked.
func (s *Server) told(c *Call) func(err *error) {
	began, over := time.Now(), false
	return func(err *error) {
		switch {
		case over:
			return
		case err == nil:
			s.outcome(c, status.Error(codes.Internal, "the handler panicked"), time.Since(began))
		default:
			s.outcome(c, *err, time.Since(began))
		}
		over = true
	}
}

// admit is the gate's, for a call that has not waited yet.
func (s *Server) admit(c *Call) (*held, error) {
	w := wait{gate: &s.gate}
	defer w.end()
	return s.gate.admit(c, &w)
}

// setTrailer tells the client what a refusal of this gate has to tell.
func setTrailer(ctx context.Context, g *gate, err error) {
	if r, ok := errors.AsType[*refusal](err); ok && r.gate == g {
		_ = grpc.SetTrailer(ctx, r.trailer()) // fails where there is no transport, as in a test that calls the interceptor
	}
}

// isProbe reports whether the method is one that watches the server rather than uses it.
func (s *Server) isProbe(method string) bool {
	if s.chargeProbes {
		return false
	}
	switch serviceOf(method) {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}

// Close returns when what is being given back to the store has been, which for each call takes a second at most. It changes nothing
// else: call it when the server has stopped and before the program ends, so that no permit is left to expire.
func (s *Server) Close() error {
	s.gate.returns.Wait(releaseTimeout)
	return nil
}
