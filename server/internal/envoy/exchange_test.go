package envoy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidegate-go/tidegate"
)

// tellingStore decides by nothing but what a charge says, so that an answer with anything of another request is not the same.
// It keeps the keys that it was asked for, beside copies of them.
type tellingStore struct {
	tidegate.Store // it has no other methods

	mu   sync.Mutex
	keys map[string]string // the copies, by the keys
}

func (s *tellingStore) Take(_ context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	s.mu.Lock()
	for i := range charges {
		s.keys[charges[i].Key] = strings.Clone(charges[i].Key)
	}
	s.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		switch {
		case strings.HasPrefix(c.Key, "fail"):
			return nil, fmt.Errorf("%w: %s", tidegate.ErrStore, c.Key)
		case strings.HasPrefix(c.Key, "panic"):
			panic(c.Key)
		}
		h := fnv.New32a()
		fmt.Fprintf(h, "%q %q %d %v", c.Rule, c.Key, c.Cost, *c.Limit)
		n := int64(h.Sum32())
		dst = append(dst, tidegate.Decision{Allowed: n%5 > 0, Limit: 1 << 32, Remaining: n, ResetAfter: time.Duration(1+n%1000) * time.Second})
	}
	return dst, nil
}

// telling is a service over a store that tells, which is to answer as the config says.
func telling(tb testing.TB, cfg ServiceConfig) (*Service, *tellingStore) {
	tb.Helper()
	store := &tellingStore{keys: map[string]string{}}
	cfg.Store = store
	s, err := NewService(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	s.Set(mustParse(tb, `domain: checkout
descriptors:
- key: one
  detailed_metric: true
  rate_limit: {unit: hour, requests_per_unit: 9}
- key: two
  descriptors:
  - key: more
    rate_limit: {unit: day, requests_per_unit: 10}
- key: free
  rate_limit: {unlimited: true}
`))
	return s, store
}

// anyRequest makes up requests of all kinds, of which no two have a value in common.
func anyRequest(r *rand.Rand, name string) *ratelimitv3.RateLimitRequest {
	req := &ratelimitv3.RateLimitRequest{Domain: "checkout"}
	if r.IntN(3) == 0 {
		req.HitsAddend = r.Uint32N(1000)
	}
	entry := func(key, value string) *commonv3.RateLimitDescriptor_Entry {
		return &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	sizes := []int{1, 1, 1, 2, 2, 3, 10, 10, 10, 20, 30, keptDescriptors + 1}
	for i := range sizes[r.IntN(len(sizes))] {
		value := fmt.Sprintf("%s-%d%s", name, i, strings.Repeat("v", r.IntN(30)))
		d := &commonv3.RateLimitDescriptor{}
		switch r.IntN(5) {
		case 0:
			d.Entries = append(d.Entries, entry("nothing", value), entry("limits", value), entry("it", value))
		case 1:
			d.Entries = append(d.Entries, entry("free", value))
		case 2:
			d.Entries = append(d.Entries, entry("two", value), entry("more", value))
		default:
			d.Entries = append(d.Entries, entry("one", value))
		}
		if r.IntN(4) == 0 {
			d.HitsAddend = wrapperspb.UInt64(r.Uint64N(2) * r.Uint64N(1000)) // a 0 is sent as nothing
		}
		d.IsNegativeHits = r.IntN(8) == 0
		req.Descriptors = append(req.Descriptors, d)
	}
	some := req.GetDescriptors()[r.IntN(len(req.GetDescriptors()))]
	switch r.IntN(16) { // what is not usual
	case 0, 1:
		some.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: r.Uint32N(1000), Unit: typev3.RateLimitUnit_MINUTE}
	case 2:
		req.ProtoReflect().SetUnknown(wireText(9, name))
	case 3:
		some.ProtoReflect().SetUnknown(wireText(9, name))
	case 4:
		req.Domain = name
	case 5:
		req.Domain = ""
	case 6:
		some.HitsAddend = wrapperspb.UInt64(maxHits + 1 + r.Uint64N(1000))
	case 7:
		some.Entries = []*commonv3.RateLimitDescriptor_Entry{entry("one", "fail "+name)}
	case 8:
		some.Entries = []*commonv3.RateLimitDescriptor_Entry{entry("one", "panic "+name)}
	}
	return req
}

// Requests of all kinds, many at once, over sockets: each answer, and each error, is that of a service that is asked for it
// alone and with messages of its own.
func TestRequestsSeeNothingOfEachOther(t *testing.T) {
	for name, cfg := range map[string]ServiceConfig{
		"plain":    {},
		"metrics":  {Metrics: NewMetrics()},
		"headers":  {Headers: true},
		"metadata": {DynamicMetadata: true, Quota: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := telling(t, cfg)
			cfg.Metrics = nil
			alone, _ := telling(t, cfg)
			conn := connected(t, s)
			client := ratelimitv3.NewRateLimitServiceClient(conn)
			var wg sync.WaitGroup
			for caller := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(7, uint64(caller)))
					for i := range 80 {
						req := anyRequest(r, fmt.Sprintf("%d-%d", caller, i))
						want, wantErr := answerAlone(t.Context(), alone, req)
						var options []grpc.CallOption
						if r.IntN(16) == 0 {
							options = append(options, grpc.UseCompressor(gzip.Name))
						}
						got, err := client.ShouldRateLimit(t.Context(), req, options...)
						if status.Code(err) != status.Code(wantErr) || err == nil && !proto.Equal(got, want) ||
							err != nil && status.Code(err) != codes.Internal && err.Error() != wantErr.Error() {
							t.Errorf("%v is answered\n%v, %v, want\n%v, %v", req, got, err, want, wantErr)
							return
						}
						if r.IntN(8) == 0 { // one that is none
							garbage := rawMessage(wireField(2, wireText(1, "garbage")))
							err := conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &garbage, new(rawMessage),
								grpc.ForceCodecV2(rawCodec{}))
							if status.Code(err) != codes.Internal {
								t.Errorf("garbage: %v", err)
							}
						}
					}
				})
			}
			wg.Wait()
			for key, kept := range store.keys {
				if key != kept {
					t.Errorf("the key %q has become %q", kept, key)
				}
			}
		})
	}
}

// answerAlone answers without a socket; what panics is an error of the code that a server makes of it.
func answerAlone(ctx context.Context, s *Service, req *ratelimitv3.RateLimitRequest) (_ *ratelimitv3.RateLimitResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "%v", p)
		}
	}()
	return s.ShouldRateLimit(ctx, req)
}

// reading is what gRPC gives a handler to read a message with.
func reading(message []byte) func(any) error {
	return func(v any) error { return Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, v) }
}

// An exchange that was released keeps nothing of its request, or of its answer, and a large one is not used again.
func TestReleasedExchangesKeepNothing(t *testing.T) {
	s, _ := telling(t, ServiceConfig{})
	r := rand.New(rand.NewPCG(1, 1))
	large := 0
	for i := range 200 {
		req := anyRequest(r, fmt.Sprint(i))
		x := used(t)
		x.service = s
		if err := reading(bytesOf(t, req))(x); err != nil {
			t.Fatal(err)
		}
		if _, err := answerAlone(t.Context(), s, &x.request); err == nil {
			if _, err := x.answer(t.Context(), &x.request); err != nil {
				t.Fatal(err)
			}
		}
		grown := len(x.descriptors) > keptDescriptors || len(x.parts) > keptDescriptors
		x.release()
		if grown {
			large++
			if s.exchanges.Get() == any(x) {
				t.Errorf("an exchange of %d descriptors is used again", len(req.GetDescriptors()))
			}
			continue
		}
		if proto.Size(&x.request) > 0 || proto.Size(&x.response) > 0 || x.request.Descriptors != nil || x.response.Statuses != nil {
			t.Errorf("%v and %v are left", &x.request, &x.response)
		}
		zero(t, x.descriptors[:cap(x.descriptors)])
		zero(t, x.list[:cap(x.list)])
		zero(t, x.entries[:cap(x.entries)])
		zero(t, x.pointers[:cap(x.pointers)])
		zero(t, x.hits[:cap(x.hits)])
		zero(t, x.parts[:cap(x.parts)])
		zero(t, x.statuses[:cap(x.statuses)])
	}
	if large == 0 {
		t.Error("no request was large")
	}
}

func zero[T any](t *testing.T, list []T) {
	t.Helper()
	for i := range list {
		if v := reflect.ValueOf(&list[i]).Elem(); !v.IsZero() {
			t.Errorf("%T of %d: %d is not empty", list, len(list), i)
		}
	}
}

// What interceptors do to the request and to the answer is what the service is asked, and what the client is told.
func TestInterceptorsSeeMessages(t *testing.T) {
	s, _ := telling(t, ServiceConfig{})
	message := bytesOf(t, &ratelimitv3.RateLimitRequest{Domain: "checkout", Descriptors: []*commonv3.RateLimitDescriptor{parseDescriptor(t, "one=a")}})
	answerTo := func(d string) *ratelimitv3.RateLimitResponse {
		resp, err := s.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "checkout", Descriptors: []*commonv3.RateLimitDescriptor{parseDescriptor(t, d)}})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	refused := errors.New("refused")
	headed := answerTo("one=a")
	headed.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "k"}}
	for name, c := range map[string]struct {
		intercept grpc.UnaryServerInterceptor
		want      *ratelimitv3.RateLimitResponse
		err       error
	}{
		"none": {nil, answerTo("one=a"), nil},
		"one that looks on": {func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if d := req.(*ratelimitv3.RateLimitRequest).GetDomain(); d != "checkout" || info.FullMethod != ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName ||
				info.Server != any(s) {
				t.Errorf("%q, %v", d, info)
			}
			resp, err := handle(ctx, req)
			if n := len(resp.(*ratelimitv3.RateLimitResponse).GetStatuses()); n != 1 {
				t.Errorf("%d statuses", n)
			}
			return resp, err
		}, answerTo("one=a"), nil},
		"one that changes the request": {func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			req.(*ratelimitv3.RateLimitRequest).Descriptors[0] = parseDescriptor(t, "two=b,more=c")
			return handle(ctx, req)
		}, answerTo("two=b,more=c"), nil},
		"one that replaces the request": {func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(ctx, &ratelimitv3.RateLimitRequest{Domain: "checkout", Descriptors: []*commonv3.RateLimitDescriptor{parseDescriptor(t, "one=d")}})
		}, answerTo("one=d"), nil},
		"one that changes the answer": {func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			resp, err := handle(ctx, req)
			resp.(*ratelimitv3.RateLimitResponse).ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "k"}}
			return resp, err
		}, headed, nil},
		"one that replaces the answer": {func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
			return answerTo("one=e"), nil
		}, answerTo("one=e"), nil},
		"one that asks twice": {func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if _, err := handle(ctx, &ratelimitv3.RateLimitRequest{
				Domain: "other", Descriptors: make([]*commonv3.RateLimitDescriptor, 9),
			}); err != nil {
				t.Error(err)
			}
			return handle(ctx, req)
		}, answerTo("one=a"), nil},
		"one that refuses after the answer": {func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			resp, _ := handle(ctx, req)
			return resp, refused
		}, nil, refused},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				resp, err := handle(s, t.Context(), reading(message), c.intercept)
				if !errors.Is(err, c.err) {
					t.Fatal(err)
				}
				if err != nil {
					if resp != nil {
						t.Fatalf("%v with an error", resp)
					}
					continue
				}
				data, err := Codec().Marshal(resp)
				if err != nil {
					t.Fatal(err)
				}
				var got ratelimitv3.RateLimitResponse
				if err := proto.Unmarshal(data.Materialize(), &got); err != nil || !proto.Equal(&got, c.want) {
					t.Fatalf("%v, %v, want\n%v", &got, err, c.want)
				}
				data.Free()
			}
		})
	}
}

func bytesOf(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Two requests that run at once have an exchange each, whatever became of those before.
func TestExchangesAreOfOneRequest(t *testing.T) {
	s, _ := telling(t, ServiceConfig{})
	good := requestOf(t, 2)
	for range 100 {
		_, _ = handle(s, t.Context(), reading([]byte{0xff}), nil)
		_, _ = handle(s, t.Context(), reading(nil), nil) // read, and refused
		func() {
			defer func() { _ = recover() }()
			_, _ = handle(s, t.Context(), reading(good), func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
				panic("an interceptor")
			})
		}()
		seen := map[any]bool{}
		for range 3 {
			resp, err := handle(s, t.Context(), reading(good), nil)
			if err != nil || seen[resp] {
				t.Fatalf("an exchange has two requests: %v", err)
			}
			seen[resp] = true
		}
		for x := range seen {
			data, err := Codec().Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			data.Free()
		}
	}
}

// The description of the service is the published one, for clients, reflection, and a server that is asked what it serves.
func TestServiceIsThePublishedOne(t *testing.T) {
	published := &ratelimitv3.RateLimitService_ServiceDesc
	if serviceDesc.ServiceName != published.ServiceName || serviceDesc.Metadata != published.Metadata || serviceDesc.HandlerType != published.HandlerType ||
		len(published.Methods) != 1 || len(published.Streams) != 0 || published.Methods[0].MethodName != serviceDesc.Methods[0].MethodName {
		t.Errorf("%+v, want %+v", serviceDesc, published)
	}
	s, _ := telling(t, ServiceConfig{})
	stream, err := reflectionv1.NewServerReflectionClient(connected(t, s)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
	}}); err != nil {
		t.Fatal(err)
	}
	if told, err := stream.Recv(); err != nil || len(told.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("%v, %v", told, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprint(newExchange(s)); strings.Contains(text, "{") {
		t.Errorf("an exchange tells what is in it: %s", text)
	}
}
