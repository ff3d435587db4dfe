package envoy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidegate-go/tidegate/memstore"
)

// requestOf is a request as a proxy sends it, of so many descriptors, as bytes.
func requestOf(tb testing.TB, n int) []byte {
	tb.Helper()
	req := &ratelimitv3.RateLimitRequest{Domain: "checkout", HitsAddend: 1}
	for i := range n {
		req.Descriptors = append(req.Descriptors, &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{
			{Key: fmt.Sprintf("remote_address_%d", i), Value: "203.0.113.7"},
		}})
	}
	b, err := proto.Marshal(req)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// responseOf is an answer of so many statuses.
func responseOf(n int) *ratelimitv3.RateLimitResponse {
	resp := &ratelimitv3.RateLimitResponse{OverallCode: codeOK}
	limit := &ratelimitv3.RateLimitResponse_RateLimit{RequestsPerUnit: 1000, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE, Name: "n"}
	for range n {
		resp.Statuses = append(resp.Statuses, &ratelimitv3.RateLimitResponse_DescriptorStatus{
			Code: codeOK, CurrentLimit: limit, LimitRemaining: 900, DurationUntilReset: &durationpb.Duration{Seconds: 42},
		})
	}
	return resp
}

// The parts of messages, as bytes.
func wireField(num protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), bytes.Join(parts, nil))
}

func wireText(num protowire.Number, s string) []byte { return wireField(num, []byte(s)) }

func wireNumber(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

// wireRequest is a request as bytes, and whether it is one to decode by hand.
type wireRequest struct {
	name   string
	bytes  []byte
	byHand bool
}

func wireRequests(tb testing.TB) []wireRequest {
	tb.Helper()
	entry := func(key, value string) []byte { return wireField(1, wireText(1, key), wireText(2, value)) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	ten := requestOf(tb, 10)
	return []wireRequest{
		{"nothing", nil, true},
		{"one descriptor", requestOf(tb, 1), true},
		{"two descriptors", requestOf(tb, 2), true},
		{"ten descriptors", ten, true},
		{"a thousand descriptors", requestOf(tb, 1000), true},
		{"three entries", wireField(2, entry("a", "b"), entry("c", ""), entry("", "d")), true},
		{"empty parts", join(wireText(1, ""), wireField(2), wireField(2, wireField(1)), wireField(2, wireField(1), wireField(3))), true},
		{"another order", join(wireNumber(3, 7), wireField(2, wireNumber(4, 1), wireField(3, wireNumber(1, 5)), wireField(1, wireText(2, "v"), wireText(1, "k"))), wireText(1, "d")), true},
		{"entries apart from each other", wireField(2, entry("a", "b"), wireNumber(4, 1), entry("c", "d")), true},
		{"the last of several", join(wireText(1, "a"), wireText(1, "b"), wireNumber(3, 1), wireNumber(3, 2),
			wireField(2, wireNumber(4, 1), wireNumber(4, 0), wireField(1, wireText(1, "a"), wireText(1, "b"), wireText(2, "c"), wireText(2, "d")))), true},
		{"hits of each", wireField(2, entry("a", "b"), wireField(3, wireNumber(1, 1<<63), wireNumber(1, 9))), true},
		{"hits of 0", wireField(2, entry("a", "b"), wireField(3)), true},
		{"hits that are cut to 32 bits", wireNumber(3, 1<<63|5), true},
		{"a bool above 1", wireField(2, wireNumber(4, 1<<40)), true},
		{"long forms of a tag and a number", []byte{0x9a, 0x80, 0x00, 0x85, 0x80, 0x00}, false},
		{"a long form of a tag", []byte{0x98, 0x80, 0x00, 0x85, 0x80, 0x00}, true},
		{"text in other scripts", join(wireText(1, "größe"), wireField(2, entry("ключ", "τιμή"))), true},

		{"hits in two pieces", wireField(2, wireField(3, wireNumber(1, 5)), wireField(3)), false},
		{"a limit", wireField(2, entry("a", "b"), wireField(2, wireNumber(1, 5), wireNumber(2, 3))), false},
		{"an unknown field", join(wireText(1, "d"), wireNumber(9, 1)), false},
		{"an unknown field of a descriptor", wireField(2, wireText(9, "x")), false},
		{"an unknown field of an entry", wireField(2, wireField(1, wireNumber(3, 1))), false},
		{"an unknown field of hits", wireField(2, wireField(3, wireNumber(2, 1))), false},
		{"another type of a known field", join(wireNumber(1, 1), wireText(3, "x")), false},
		{"a group", join(wireText(1, "d"), []byte{0x3b, 0x08, 0x01, 0x3c}), false},
		{"fixed numbers", []byte{0x1d, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7, 8}, false},

		{"cut off", ten[:len(ten)-3], false},
		{"a length beyond the end", []byte{0x12, 0x05, 0x0a}, false},
		{"a length beyond its descriptor", []byte{0x12, 0x02, 0x0a, 0x03, 0x0a, 0x01, 'a'}, false},
		{"a length of 64 bits", []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, false},
		{"a number of more than 64 bits", []byte{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, false},
		{"a group that ends before it begins", []byte{0x1c}, false},
		{"a field of number 0", []byte{0x00, 0x00}, false},
		{"a wire type that there is none of", []byte{0x0f, 0x00}, false},
		{"text that is none", wireText(1, "\xff"), false},
		{"a key that is no text", wireField(2, wireField(1, wireText(1, "a\xff"))), false},
		{"a value that is no text", wireField(2, wireField(1, wireText(2, "\xc0\x80"))), false},
		{"an invalid text before a valid one", join(wireText(1, "\xff"), wireText(1, "d")), false},
	}
}

// used is an exchange that another request was in, of which something is left in all of its parts.
func used(tb testing.TB) *exchange {
	tb.Helper()
	const n = 5
	x := new(exchange)
	if !x.decode(bytes.Repeat(wireField(2, wireField(1, wireText(1, "left"), wireText(2, "over")), wireField(3, wireNumber(1, 8)), wireNumber(4, 1)), n)) {
		tb.Fatal("left to the library")
	}
	x.request.Domain, x.request.HitsAddend = "left over", 3
	unknown := wireNumber(9, 1)
	x.request.ProtoReflect().SetUnknown(unknown)
	for _, d := range x.request.GetDescriptors() {
		d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7}
		for _, m := range []proto.Message{d, d.GetHitsAddend(), d.GetEntries()[0]} {
			m.ProtoReflect().SetUnknown(unknown)
		}
	}
	x.room(n)
	x.response.OverallCode = codeOver
	x.response.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "left over"}}
	for _, st := range x.response.GetStatuses() {
		st.Code, st.LimitRemaining, st.DurationUntilReset = codeOver, 5, durationpb.New(9)
		st.ProtoReflect().SetUnknown(unknown)
	}
	return x
}

// sameRequest decodes the bytes with the codec and with the library, and says where they differ. The exchange that the codec
// decodes into was used before, and is then used for another one.
func sameRequest(t *testing.T, b []byte) {
	t.Helper()
	want := new(ratelimitv3.RateLimitRequest)
	wantErr := proto.Unmarshal(b, want)
	whole := bytes.Clone(b)
	for _, data := range []mem.BufferSlice{
		{mem.SliceBuffer(whole)},
		{mem.SliceBuffer(whole[:len(b)/2]), mem.SliceBuffer(whole[len(b)/2:])},
	} {
		copy(whole, b)
		got := used(t)
		err := Codec().Unmarshal(data, got)
		clear(whole) // the buffers are used again
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", b, err, wantErr)
		}
		if err == nil && !proto.Equal(&got.request, want) {
			t.Fatalf("%q is\n%v, want\n%v", b, &got.request, want)
		}
		next := requestOf(t, 2)
		if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(next)}, got); err != nil {
			t.Fatal(err)
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&got.request); err != nil || !bytes.Equal(again, next) {
			t.Fatalf("after %q, a request is\n%v, %v", b, &got.request, err)
		}
	}
}

// What is decoded by hand, and what is left to the library, is all as the library has it.
func TestRequestsAreReadAsByTheLibrary(t *testing.T) {
	for _, w := range wireRequests(t) {
		t.Run(w.name, func(t *testing.T) {
			sameRequest(t, w.bytes)
			if byHand := new(received).decode(w.bytes); byHand != w.byHand {
				t.Errorf("decoded by hand: %t", byHand)
			}
			for n := range w.bytes {
				if n < 200 {
					sameRequest(t, w.bytes[:n])
				}
			}
		})
	}
}

// Lists of one message do not grow into each other.
func TestDecodedListsAreApart(t *testing.T) {
	var r received
	if !r.decode(requestOf(t, 3)) {
		t.Fatal("left to the library")
	}
	req := &r.request
	want := proto.Clone(req.GetDescriptors()[1])
	req.Descriptors[0].Entries = append(req.Descriptors[0].Entries, &commonv3.RateLimitDescriptor_Entry{Key: "x"})
	if !proto.Equal(req.GetDescriptors()[1], want) {
		t.Errorf("%v, want %v", req.GetDescriptors()[1], want)
	}
}

// The text of a request is one, and the series that it begins must not keep it.
func TestSeriesKeepNoText(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	m := NewMetrics()
	s, err := NewService(ServiceConfig{Store: store, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	s.Set(mustParse(t, "domain: checkout\ndescriptors:\n- key: route\n  detailed_metric: true\n  rate_limit: {unit: hour, requests_per_unit: 9}\n"))
	var r received
	if !r.decode(bytes.Join([][]byte{wireText(1, "checkout"), wireField(2, wireField(1, wireText(1, "route"), wireText(2, "/a")))}, nil)) {
		t.Fatal("left to the library")
	}
	if _, err := s.Answer(t.Context(), &r.request); err != nil {
		t.Fatal(err)
	}
	if len(m.all) != 1 {
		t.Fatalf("%v", m.all)
	}
	for ls := range m.all {
		if ls.key1 != "route_/a" || unsafe.StringData(ls.domain) == unsafe.StringData(r.request.GetDomain()) {
			t.Errorf("%v keeps the text of the request", ls)
		}
	}
}

// sameResponse encodes the response with the codec and with the library.
func sameResponse(t *testing.T, resp *ratelimitv3.RateLimitResponse) {
	t.Helper()
	want, wantErr := proto.MarshalOptions{Deterministic: true}.Marshal(resp)
	data, err := Codec().(codec).encode(resp)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v: %v, want %v", resp, err, wantErr)
	}
	if got := data.Materialize(); err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%v is\n%x, want\n%x", resp, got, want)
	}
	data.Free()
}

func TestResponsesAreWrittenAsByTheLibrary(t *testing.T) {
	with := func(change func(r *ratelimitv3.RateLimitResponse, st *ratelimitv3.RateLimitResponse_DescriptorStatus)) *ratelimitv3.RateLimitResponse {
		resp := responseOf(2)
		change(resp, resp.GetStatuses()[1])
		return resp
	}
	type (
		response = ratelimitv3.RateLimitResponse
		status   = ratelimitv3.RateLimitResponse_DescriptorStatus
	)
	unknown := wireNumber(1000, 7)
	for _, c := range []struct {
		name   string
		resp   *ratelimitv3.RateLimitResponse
		byHand bool
	}{
		{"nothing", &response{}, true},
		{"one status", responseOf(1), true},
		{"ten", responseOf(10), true},
		{"a thousand", responseOf(1000), true},
		{"an empty status", with(func(_ *response, st *status) { st.Reset() }), true},
		{"an empty limit", with(func(_ *response, st *status) { st.CurrentLimit = new(ratelimitv3.RateLimitResponse_RateLimit) }), true},
		{"an empty duration", with(func(_ *response, st *status) { st.DurationUntilReset = new(durationpb.Duration) }), true},
		{"negative numbers", with(func(r *response, st *status) {
			r.OverallCode, st.Code, st.CurrentLimit.Unit = -1, -2, -3
			st.DurationUntilReset = &durationpb.Duration{Seconds: -4, Nanos: -5}
		}), true},
		{"a multiplier", with(func(_ *response, st *status) { st.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(300) }), true},
		{"a multiplier of 0", with(func(_ *response, st *status) { st.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(0) }), true},
		{"a name of 127 bytes", with(func(_ *response, st *status) { st.CurrentLimit.Name = strings.Repeat("n", 127) }), true},
		{"a name of 128 bytes", with(func(_ *response, st *status) { st.CurrentLimit.Name = strings.Repeat("n", 128) }), true},
		{"a name of 100 kB", with(func(_ *response, st *status) { st.CurrentLimit.Name = strings.Repeat("n", 100_000) }), true},

		{"none", nil, false},
		{"a status that is nil", with(func(r *response, _ *status) { r.Statuses[0] = nil }), false},
		{"a name that is no text", with(func(_ *response, st *status) { st.CurrentLimit.Name = "\xff" }), false},
		{"headers", with(func(r *response, _ *status) { r.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "k"}} }), false},
		{"headers of the request", with(func(r *response, _ *status) { r.RequestHeadersToAdd = []*corev3.HeaderValue{{Key: "k"}} }), false},
		{"a body", with(func(r *response, _ *status) { r.RawBody = []byte("b") }), false},
		{"metadata", with(func(r *response, _ *status) { r.DynamicMetadata = new(structpb.Struct) }), false},
		{"a quota", with(func(r *response, _ *status) { r.Quota = new(ratelimitv3.RateLimitResponse_Quota) }), false},
		{"a quota of a status", with(func(_ *response, st *status) { st.Quota = new(ratelimitv3.RateLimitResponse_Quota) }), false},
		{"an unknown field", with(func(r *response, _ *status) { r.ProtoReflect().SetUnknown(unknown) }), false},
		{"of a status", with(func(_ *response, st *status) { st.ProtoReflect().SetUnknown(unknown) }), false},
		{"of a limit", with(func(_ *response, st *status) { st.GetCurrentLimit().ProtoReflect().SetUnknown(unknown) }), false},
		{"of a duration", with(func(_ *response, st *status) { st.GetDurationUntilReset().ProtoReflect().SetUnknown(unknown) }), false},
		{"of a multiplier", with(func(_ *response, st *status) {
			st.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(2)
			st.GetCurrentLimit().GetUnitMultiplier().ProtoReflect().SetUnknown(unknown)
		}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sameResponse(t, c.resp)
			if byHand := plain(c.resp); byHand != c.byHand {
				t.Errorf("encoded by hand: %t", byHand)
			}
		})
	}
}

// A field that a later version of the messages has must be read or left to the library, and this test then be told of it.
func TestMessagesHaveNoOtherFields(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		fields  int
	}{
		{&ratelimitv3.RateLimitRequest{}, 3},
		{&commonv3.RateLimitDescriptor{}, 4},
		{&commonv3.RateLimitDescriptor_Entry{}, 2},
		{&ratelimitv3.RateLimitResponse{}, 7},
		{&ratelimitv3.RateLimitResponse_DescriptorStatus{}, 5},
		{&ratelimitv3.RateLimitResponse_RateLimit{}, 4},
	} {
		d := c.message.ProtoReflect().Descriptor()
		if n := d.Fields().Len(); n != c.fields {
			t.Errorf("%s has %d fields, and the codec knows %d: look at decode.go and plain in encode.go", d.FullName(), n, c.fields)
		}
	}
}

// A server with the codec answers requests that come compressed, and those of other services.
func TestCodecOnTheWire(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	s, err := NewService(ServiceConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	s.Set(mustParse(t, limitsOf("checkout")))
	conn := connected(t, s)
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	for _, n := range []int{1, 10, 256} {
		var req ratelimitv3.RateLimitRequest
		if err := proto.Unmarshal(requestOf(t, n), &req); err != nil {
			t.Fatal(err)
		}
		req.Descriptors[0] = parseDescriptor(t, "k=v")
		want, err := s.Answer(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			got, err := client.ShouldRateLimit(t.Context(), &req, options...)
			if err != nil || len(got.GetStatuses()) != n ||
				!proto.Equal(got.GetStatuses()[0].GetCurrentLimit(), want.GetStatuses()[0].GetCurrentLimit()) {
				t.Errorf("%d descriptors: %v, %v", n, got, err)
			}
		}
	}
	if r, err := healthv1.NewHealthClient(conn).Check(t.Context(), new(healthv1.HealthCheckRequest)); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
}
