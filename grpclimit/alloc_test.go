//go:build !race

// Under the race detector a sync.Pool forgets at random: make test runs these without it.

package grpclimit

import (
	"context"
	"testing"

	"google.golang.org/grpc"
)

// A call that passes allocates the call, which is the handler's context as well, and the text of the address by which it
// is counted.
func TestServerAllocates(t *testing.T) {
	ctx := benchContext(t)
	for by, want := range map[string]float64{"method": 1, "ip": 2} {
		s := newServer(t, newLimiter(t, "unlimited", by), nil)
		got := testing.AllocsPerRun(1000, func() { _, _ = s.Unary(ctx, benchRequest, benchInfo, benchHandler) })
		if got > want {
			t.Errorf("by %s: %v allocations, want %v", by, got, want)
		}
	}
}

func TestClientAllocates(t *testing.T) {
	c := newClient(t, newLimiter(t, "unlimited", "method"), nil)
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	got := testing.AllocsPerRun(1000, func() { _ = c.Unary(t.Context(), unaryMethod, benchRequest, nil, nil, invoker) })
	if got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}
