package envoy

import (
	"context"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// What an exchange may have grown to and still be used again; what is larger is rare, and would stay large for ever.
const (
	keptDescriptors = 64
	keptEntries     = 256
)

// exchange is a request over gRPC and its answer, with all that they are made of. It is used again and again, and belongs to
// one request at a time: from when the handler takes it to when the codec has made bytes of the answer. An exchange that
// does not come so far, because the request could not be read, was refused, panicked, or because an interceptor answered
// otherwise, is left to the garbage collector: who may still have it then is not known.
//
// gRPC knows it for the message, and so do those that it tells of messages (stats.InPayload, stats.OutPayload, traces).
// Interceptors see the request and the response.
type exchange struct {
	service *Service
	handle  grpc.UnaryHandler // its own answer, made a function once
	received
	answered
}

func newExchange(s *Service) *exchange {
	x := &exchange{service: s}
	x.handle = x.answer
	return x
}

// answer is what interceptors are around. They may have made another request of it.
func (x *exchange) answer(ctx context.Context, req any) (any, error) {
	resp, err := x.service.shouldRateLimit(ctx, req.(*ratelimitv3.RateLimitRequest), &x.answered)
	if err != nil {
		return nil, err // and not a response that is nil
	}
	return resp, nil
}

// release gives the exchange to the requests to come. Nobody may have a part of it any more.
func (x *exchange) release() {
	if cap(x.descriptors) > keptDescriptors || cap(x.entries) > keptEntries || cap(x.hits) > keptDescriptors || cap(x.parts) > keptDescriptors {
		return
	}
	x.received.forget()
	x.answered.forget()
	x.service.exchanges.Put(x)
}

// String says what it is, and nothing of what is in it, which may be another request's by the time that traces are read.
func (*exchange) String() string { return "a request to the rate limit service, or its answer" }

// Register makes the server answer by the service. It needs [Codec].
func (s *Service) Register(server grpc.ServiceRegistrar) { server.RegisterService(&serviceDesc, s) }

// serviceDesc is ratelimitv3.RateLimitService_ServiceDesc with a handler that makes no messages of its own.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: "envoy.service.ratelimit.v3.RateLimitService",
	HandlerType: (*ratelimitv3.RateLimitServiceServer)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: method, Handler: handle}},
	Metadata:    "envoy/service/ratelimit/v3/rls.proto",
}

// handle reads a request, and returns the exchange where the answer in it is what the interceptors let through.
func handle(service any, ctx context.Context, read func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	s := service.(*Service)
	x := s.exchanges.Get().(*exchange)
	if err := read(x); err != nil {
		return nil, err
	}
	var resp any
	var err error
	if intercept == nil {
		resp, err = x.answer(ctx, &x.request)
	} else {
		resp, err = intercept(ctx, &x.request, &s.info, x.handle)
	}
	if err != nil {
		return nil, err
	}
	if resp == any(&x.response) {
		return x, nil
	}
	return resp, nil
}
