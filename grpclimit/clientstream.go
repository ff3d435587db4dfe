package grpclimit

import (
	"context"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Stream is a [grpc.StreamClientInterceptor].
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := &Call{gate: &c.gate, ctx: ctx, method: method, target: target(cc), client: true, stream: true}
	if c.gate.skip != nil && c.gate.skip(call) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	permit, err := c.admit(call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	// A stream ends in many ways, some of which none of its methods sees; gRPC calls this in each.
	finish := func(err error) {
		cancel()
		permit.release()
		c.pushback.observe(call, err)
	}
	// A slice of its own: the caller's may have room for one more, which is not ours.
	opts = append(slices.Clip(opts), grpc.OnFinish(finish))
	started := false
	defer func() {
		if !started {
			cancel()
			permit.release()
		}
	}()
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	started = true
	if c.gate.send == nil && c.gate.receive == nil {
		return s, nil
	}
	w := &clientStream{ClientStream: s, cancel: cancel}
	if c.gate.receive != nil {
		cp := *call
		w.receive = &cp
	}
	if c.gate.send != nil {
		cp := *call
		w.send = &cp
	}
	return w, nil
}

// clientStream charges the messages of a stream. One goroutine may send while another receives, so that each direction has
// a call of its own.
type clientStream struct {
	grpc.ClientStream

	receive, send *Call // nil where messages are not charged
	cancel        context.CancelFunc
	refused       atomic.Pointer[error] // what ended the stream
}

// SendMsg charges a message and sends it. A refusal ends the stream, as every error of SendMsg does.
func (s *clientStream) SendMsg(m any) error {
	if s.send == nil {
		return s.ClientStream.SendMsg(m)
	}
	if err := s.refused.Load(); err != nil {
		return *err
	}
	if err := s.send.gate.passMessage(s.send, m, s.send.gate.send); err != nil {
		return s.end(err)
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives a message and charges it. Once the stream was ended by a refusal, that is what it returns, rather than
// that it was cancelled.
func (s *clientStream) RecvMsg(m any) error {
	if err := s.refused.Load(); err != nil {
		return *err
	}
	if err := s.ClientStream.RecvMsg(m); err != nil {
		if refused := s.refused.Load(); refused != nil {
			return *refused
		}
		return err
	}
	if s.receive == nil {
		return nil
	}
	if err := s.receive.gate.passMessage(s.receive, m, s.receive.gate.receive); err != nil {
		return s.end(err)
	}
	return nil
}

// end ends the stream with the error, unless it was ended before.
func (s *clientStream) end(err error) error {
	s.refused.CompareAndSwap(nil, &err)
	s.cancel()
	return *s.refused.Load()
}
