package grpclimit

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tidegate-go/tidegate"
)

// benchContext is one as a server's calls have, with a peer.
func benchContext(tb testing.TB) context.Context {
	tb.Helper()
	return peer.NewContext(tb.Context(), &peer.Peer{Addr: tcp("192.0.2.7:4711")})
}

var (
	benchInfo    = &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	benchRequest = any(&emptypb.Empty{})
	benchHandler = func(context.Context, any) (any, error) { return benchRequest, nil }
)

func BenchmarkServerUnary(b *testing.B) {
	ctx := benchContext(b)
	for _, c := range []struct {
		name string
		s    *Server
	}{
		{"passes", newServer(b, newLimiter(b, "1000000000/s", "ip"), nil)},
		{"by method", newServer(b, newLimiter(b, "1000000000/s", "method"), nil)},
		{"with a permit", newServer(b, newLimiter(b, "1000000000/s", "ip"), &ServerConfig{Permits: newLimiter(b, "100 concurrent", "")})},
		{"refused", newServer(b, newLimiter(b, "1/h", "ip"), nil)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.s.Unary(ctx, benchRequest, benchInfo, benchHandler)
			}
		})
	}
}

// messages is a stream without a transport.
type messages struct {
	grpc.ServerStream

	ctx context.Context
}

func (m *messages) Context() context.Context { return m.ctx }
func (m *messages) RecvMsg(any) error        { return nil }

func BenchmarkServerMessage(b *testing.B) {
	s := newServer(b, newLimiter(b, "1000000000/s", "method"), &ServerConfig{ReceiveCost: One})
	b.ReportAllocs()
	err := s.Stream(nil, &messages{ctx: benchContext(b)}, &grpc.StreamServerInfo{FullMethod: duplexMethod},
		func(_ any, ss grpc.ServerStream) error {
			for b.Loop() {
				if err := ss.RecvMsg(benchRequest); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCall is the whole call over the loopback, without a limit and with one.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit *Server
	}{
		{"without a limit", nil},
		{"with a limit", newServer(b, newLimiter(b, "1000000000/s", "ip"), nil)},
		{"that is told", newServer(b, newLimiter(b, "1000000000/s", "ip"), &ServerConfig{TellAllowed: true})},
		{"that refuses", newServer(b, always(tidegate.Decision{Limit: 1, Rule: "api", RetryAfter: 1}, nil), nil)},
	} {
		b.Run(c.name, func(b *testing.B) {
			cl := dial(b, serve(b, c.limit, &service{}), nil)
			b.ReportAllocs()
			for b.Loop() {
				_ = call(b, cl)
			}
		})
	}
}
