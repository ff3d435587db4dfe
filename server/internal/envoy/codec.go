package envoy

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec reads requests and writes responses of the service by hand, where they are as proxies and we make them, and leaves
// everything else to the library: it finds out field by field what a message has, and allocates each of its parts. What is
// read and written is the same. It knows them by the exchange that they are parts of.
type codec struct{ library encoding.CodecV2 }

// Codec returns the codec that a gRPC server with a [Service] needs. It carries all other services of the server as the
// library's does.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Name implements [encoding.CodecV2]: it stands in for the library's codec.
func (codec) Name() string { return proto.Name }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	x, ok := v.(*exchange)
	if !ok {
		return c.library.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if x.decode(buf.ReadOnlyData()) {
		return nil
	}
	return c.library.Unmarshal(data, &x.request) // which empties it first
}

// Marshal implements [encoding.CodecV2]. It is the last that happens to an exchange: when what it answers is bytes, others
// may have it.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	x, ok := v.(*exchange)
	if !ok {
		return c.library.Marshal(v)
	}
	data, err := c.encode(&x.response)
	x.release()
	return data, err
}

// encode writes a response.
func (c codec) encode(resp *ratelimitv3.RateLimitResponse) (mem.BufferSlice, error) {
	if !plain(resp) {
		return c.library.Marshal(resp)
	}
	b := buffers.Get(0)
	*b = appendResponse(*b, resp)
	return mem.BufferSlice{mem.NewBuffer(b, buffers)}, nil
}
