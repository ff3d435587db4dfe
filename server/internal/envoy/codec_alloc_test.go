//go:build !race

// Under the race detector a sync.Pool forgets at random.

package envoy

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tidegate-go/tidegate/memstore"
)

// A request allocates once for all of its text, and an answer once for what gRPC wants around its bytes, however many
// descriptors there are. What comes between does not allocate, either.
func TestCodecAllocations(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	s, err := NewService(ServiceConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	s.Set(mustParse(t, "domain: checkout\ndescriptors:\n- key: remote_address_0\n  rate_limit: {unit: hour, requests_per_unit: 9}\n"))
	around := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return handle(ctx, req)
	}
	for _, n := range []int{1, 4, 10, keptDescriptors} {
		data := mem.BufferSlice{mem.SliceBuffer(requestOf(t, n))}
		codec := Codec()
		read := func(v any) error { return codec.Unmarshal(data, v) }
		if allocations := testing.AllocsPerRun(200, func() {
			x, err := handle(s, t.Context(), read, around)
			if err != nil {
				t.Fatal(err)
			}
			told, err := codec.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			told.Free()
		}); allocations > 2 {
			t.Errorf("a request of %d descriptors and its answer: %v allocations, want at most 2", n, allocations)
		}
	}
}
