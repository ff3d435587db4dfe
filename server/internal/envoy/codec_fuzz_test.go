package envoy

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FuzzRequestCodec: any bytes are the request that the library has of them, or refused where it refuses them.
func FuzzRequestCodec(f *testing.F) {
	for _, w := range wireRequests(f) {
		if len(w.bytes) < 1000 { // a long one is slow, and tells no more
			f.Add(w.bytes)
		}
	}
	f.Fuzz(sameRequest)
}

// FuzzResponseCodec: any response is written as the library writes it.
func FuzzResponseCodec(f *testing.F) {
	f.Add(uint8(1), uint8(0xff), int32(1), int32(2), uint32(5), int32(4), "name", uint32(0), uint32(300), int64(42), int32(0), "")
	f.Add(uint8(10), uint8(0x0f), int32(-1), int32(-2), uint32(1<<31), int32(-3), strings.Repeat("n", 130), uint32(1), uint32(1<<31), int64(-1), int32(-1), "")
	f.Add(uint8(2), uint8(0x03), int32(0), int32(0), uint32(0), int32(0), "\xff", uint32(0), uint32(0), int64(0), int32(0), "\x4d\x01")
	f.Fuzz(func(t *testing.T, n, parts uint8, overall, code int32, perUnit uint32, unit int32, name string, multiplier, remaining uint32,
		seconds int64, nanos int32, unknown string,
	) {
		resp := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_Code(overall)}
		for i := range n {
			st := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_Code(code), LimitRemaining: remaining}
			if has := parts >> (i % 8); has&1 != 0 {
				st.CurrentLimit = &ratelimitv3.RateLimitResponse_RateLimit{
					RequestsPerUnit: perUnit, Unit: ratelimitv3.RateLimitResponse_RateLimit_Unit(unit), Name: name,
				}
				if has&2 != 0 {
					st.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(multiplier)
				}
			} else if has&2 != 0 {
				st.DurationUntilReset = &durationpb.Duration{Seconds: seconds, Nanos: nanos}
			}
			if parts&0x10 != 0 {
				st.DurationUntilReset = &durationpb.Duration{Seconds: seconds + int64(i), Nanos: nanos}
			}
			resp.Statuses = append(resp.Statuses, st)
		}
		sameResponse(t, resp)
		if proto.Unmarshal([]byte(unknown), resp) == nil { // whatever else a response can be
			resp.ResponseHeadersToAdd = append(resp.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name})
			sameResponse(t, resp)
			resp.ResponseHeadersToAdd = nil
			sameResponse(t, resp)
		}
	})
}
