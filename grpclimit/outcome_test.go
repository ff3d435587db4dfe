package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Who asks is told how each call that passed ended, a panic as INTERNAL; nothing of those that were refused.
func TestOutcome(t *testing.T) {
	var told []string
	s := newServer(t, newLimiter(t, "3/h", "method"), &ServerConfig{Outcome: func(c *Call, err error, took time.Duration) {
		told = append(told, fmt.Sprint(c.Method(), " ", status.Code(err), " ", took >= 0))
	}})
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	handlers := []grpc.UnaryHandler{
		func(context.Context, any) (any, error) { return "fine", nil },
		func(context.Context, any) (any, error) { return nil, status.Error(codes.Unavailable, "not now") },
		func(context.Context, any) (any, error) { panic("out of order") },
		func(context.Context, any) (any, error) { return nil, errors.New("never called") },
	}
	for _, h := range handlers {
		func() {
			defer func() { _ = recover() }()
			_, _ = s.Unary(t.Context(), nil, info, h)
		}()
	}
	if want := []string{"/a.B/C OK true", "/a.B/C Unavailable true", "/a.B/C Internal true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
