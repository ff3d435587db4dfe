package grpclimit

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/tidegate-go/tidegate"
)

// A message whose wait ended in a panic, which the server recovers from, kept its place among those that wait for ever.
func TestFaultPanicKeepsAPlaceAmongThoseThatWait(t *testing.T) {
	asked := 0
	s := newServer(t, deciderFunc(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		if asked++; asked == 2 {
			panic("a fault of the decider")
		}
		return tidegate.Decision{Limit: 1, RetryAfter: time.Millisecond, Rule: "api"}, nil
	}), &ServerConfig{ReceiveCost: One, MaxWait: time.Minute})
	c := Call{gate: &s.gate, ctx: t.Context(), method: duplexMethod, stream: true}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = s.gate.passMessage(&c, "message", s.gate.receive)
	}()
	if n := s.gate.waiting.Load(); n != 0 || c.message != nil {
		t.Errorf("%d wait, and the call has the message %v", n, c.message)
	}
}

// A stream that passed and then was refused by a message told its limit twice: once as it was when it began.
func TestFaultTrailersToldTwice(t *testing.T) {
	s := newServer(t, newLimiter(t, "2/h", "ip"), &ServerConfig{TellAllowed: true, ReceiveCost: One})
	stream := duplex(t, t.Context(), dial(t, serve(t, s, &service{}), nil))
	if err := talk(stream, 0); err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(message(1))
	_, err := stream.Recv()
	wantCode(t, err, codes.ResourceExhausted)
	for field, want := range metadata.Pairs("ratelimit", `"api";r=0;t=1800`, "ratelimit-policy", `"api";q=2;w=3600`) {
		if got := stream.Trailer().Get(field); len(got) != 1 || got[0] != want[0] {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
}
