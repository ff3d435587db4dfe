package envoy

import (
	"fmt"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 10} {
		text := requestOf(b, n)
		b.Run(fmt.Sprintf("by=hand/descriptors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var r received // as a server has it that has answered before
			for b.Loop() {
				if !r.decode(text) {
					b.Fatal("left to the library")
				}
			}
		})
		b.Run(fmt.Sprintf("by=library/descriptors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(text, new(ratelimitv3.RateLimitRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{1, 10} {
		resp := responseOf(n)
		c := Codec().(codec)
		b.Run(fmt.Sprintf("by=hand/descriptors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := c.encode(resp)
				if err != nil || data.Len() == 0 {
					b.Fatal(err)
				}
				data.Free()
			}
		})
		b.Run(fmt.Sprintf("by=library/descriptors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := c.library.Marshal(resp)
				if err != nil || data.Len() == 0 {
					b.Fatal(err)
				}
				data.Free()
			}
		})
	}
}
