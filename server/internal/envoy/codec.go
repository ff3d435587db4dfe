package envoy

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec reads requests and writes responses of the service by hand, where they are as proxies and we make them, and leaves
// everything else to the library: it finds out field by field what a message has, and allocates each of its parts. What is
// read and written is the same.
type codec struct{ library encoding.CodecV2 }

// Codec returns the codec that a gRPC server with a [Service] is light with. It carries all other services of the server as
// the library's does.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Name implements [encoding.CodecV2]: it stands in for the library's codec.
func (codec) Name() string { return proto.Name }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if req, ok := v.(*ratelimitv3.RateLimitRequest); ok && decodeBuffers(req, data) {
		return nil
	}
	return c.library.Unmarshal(data, v)
}

func decodeBuffers(req *ratelimitv3.RateLimitRequest, data mem.BufferSlice) bool {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return decode(req, buf.ReadOnlyData())
}

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	resp, ok := v.(*ratelimitv3.RateLimitResponse)
	if !ok || !plain(resp) {
		return c.library.Marshal(v)
	}
	var space [1024]byte // most are shorter
	b := appendResponse(space[:0], resp)
	return mem.BufferSlice{mem.Copy(b, mem.DefaultBufferPool())}, nil
}
