//go:build !race

// Under the race detector a sync.Pool forgets at random.

package envoy

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
)

// A request allocates once for all of its text and once for each kind of what it has, however many of them there are; an
// answer for its bytes and the two that gRPC wants around them.
func TestCodecAllocations(t *testing.T) {
	for _, c := range []struct {
		descriptors  int
		read, answer float64
	}{{1, 3, 1}, {4, 6, 1}, {10, 6, 3}, {100, 6, 3}} {
		data := mem.BufferSlice{mem.SliceBuffer(requestOf(t, c.descriptors))}
		codec := Codec()
		if n := testing.AllocsPerRun(200, func() {
			if err := codec.Unmarshal(data, new(ratelimitv3.RateLimitRequest)); err != nil {
				t.Fatal(err)
			}
		}); n > c.read {
			t.Errorf("a request of %d descriptors: %v allocations, want at most %v", c.descriptors, n, c.read)
		}
		resp := responseOf(c.descriptors)
		if n := testing.AllocsPerRun(200, func() {
			data, err := codec.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			data.Free()
		}); n > 3 {
			t.Errorf("a response of %d statuses: %v allocations, want at most 3", c.descriptors, n)
		}
		if n := testing.AllocsPerRun(200, func() { room(c.descriptors) }); n > c.answer {
			t.Errorf("room for %d statuses: %v allocations, want at most %v", c.descriptors, n, c.answer)
		}
	}
}
