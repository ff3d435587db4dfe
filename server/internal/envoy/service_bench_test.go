package envoy

import (
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tidegate-go/tidegate/memstore"
)

// BenchmarkService asks a server on a socket. What is allocated is the client's too, which does no more than it must.
func BenchmarkService(b *testing.B) {
	store := memstore.New(nil)
	defer store.Close()
	s, err := NewService(ServiceConfig{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	text := "domain: checkout\ndescriptors:\n"
	for i := range 10 {
		text += fmt.Sprintf("- key: remote_address_%d\n  rate_limit: {unit: second, requests_per_unit: 4000000000}\n", i)
	}
	s.Set(mustParse(b, text))
	conn := connected(b, s)
	for _, n := range []int{1, 10} {
		request := rawMessage(requestOf(b, n))
		b.Run(fmt.Sprintf("descriptors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var response rawMessage
				for pb.Next() {
					err := conn.Invoke(b.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &request, &response,
						grpc.ForceCodecV2(rawCodec{}))
					if err != nil || !strings.HasPrefix(string(response), "\x08\x01\x12") {
						b.Errorf("%q, %v", response, err)
						return
					}
				}
			})
		})
	}
}

// rawMessage is a message that is bytes already.
type rawMessage []byte

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*rawMessage))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m := v.(*rawMessage)
	*m = append((*m)[:0], make([]byte, data.Len())...)
	data.CopyTo(*m)
	return nil
}
