package envoy

import (
	"unicode/utf8"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// plain reports whether a response has nothing but what is written by hand, field by field in the order of their numbers as
// the library does. Headers, metadata and the like are for it.
func plain(resp *ratelimitv3.RateLimitResponse) bool {
	if resp == nil || resp.GetResponseHeadersToAdd() != nil || resp.GetRequestHeadersToAdd() != nil || resp.GetRawBody() != nil ||
		resp.GetDynamicMetadata() != nil || resp.GetQuota() != nil || strange(resp) {
		return false
	}
	for _, st := range resp.GetStatuses() {
		if st == nil || st.GetQuota() != nil || strange(st) {
			return false
		}
		if d := st.GetDurationUntilReset(); d != nil && strange(d) {
			return false
		}
		if l := st.GetCurrentLimit(); l != nil {
			if strange(l) || !utf8.ValidString(l.GetName()) || l.GetUnitMultiplier() != nil && strange(l.GetUnitMultiplier()) {
				return false
			}
		}
	}
	return true
}

// strange reports whether a message has fields that its type does not.
func strange(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }

// appendResponse writes a plain response. All fields have numbers below 16, so that their tags are of one byte. A number of
// 0 is not written, and a negative one is in two's complement, of 64 bits whatever its type has.
func appendResponse(b []byte, resp *ratelimitv3.RateLimitResponse) []byte {
	b = appendNumber(b, 1, uint64(resp.GetOverallCode()))
	for _, st := range resp.GetStatuses() {
		var start int
		b, start = begin(b, 2)
		b = end(appendStatus(b, st), start)
	}
	return b
}

func appendStatus(b []byte, st *ratelimitv3.RateLimitResponse_DescriptorStatus) []byte {
	b = appendNumber(b, 1, uint64(st.GetCode()))
	var start int
	if l := st.GetCurrentLimit(); l != nil {
		b, start = begin(b, 2)
		b = end(appendLimit(b, l), start)
	}
	b = appendNumber(b, 3, uint64(st.GetLimitRemaining()))
	if d := st.GetDurationUntilReset(); d != nil {
		b, start = begin(b, 4)
		b = appendNumber(b, 1, uint64(d.GetSeconds()))
		b = appendNumber(b, 2, uint64(d.GetNanos()))
		b = end(b, start)
	}
	return b
}

func appendLimit(b []byte, l *ratelimitv3.RateLimitResponse_RateLimit) []byte {
	b = appendNumber(b, 1, uint64(l.GetRequestsPerUnit()))
	b = appendNumber(b, 2, uint64(l.GetUnit()))
	var start int
	if l.GetName() != "" {
		b, start = begin(b, 3)
		b = end(append(b, l.GetName()...), start)
	}
	if m := l.GetUnitMultiplier(); m != nil {
		b, start = begin(b, 4)
		b = end(appendNumber(b, 1, uint64(m.GetValue())), start)
	}
	return b
}

func appendNumber(b []byte, num byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, num<<3|byte(protowire.VarintType)), v)
}

// begin begins a field whose bytes follow from start on. It leaves one byte for their length: most are short.
func begin(b []byte, num byte) (_ []byte, start int) {
	return append(b, num<<3|byte(protowire.BytesType), 0), len(b) + 2
}

// end writes the length of the bytes that were appended, and makes room for it where one byte is too few.
func end(b []byte, start int) []byte {
	n := len(b) - start
	if n < 0x80 {
		b[start-1] = byte(n)
		return b
	}
	var room [9]byte // all but one of the longest length
	more := protowire.SizeVarint(uint64(n)) - 1
	b = append(b, room[:more]...)
	copy(b[start+more:], b[start:start+n])
	protowire.AppendVarint(b[:start-1], uint64(n))
	return b
}
