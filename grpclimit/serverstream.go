package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Stream is a [grpc.StreamServerInterceptor].
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if s.isProbe(info.FullMethod) {
		return handler(srv, ss)
	}
	ctx := ss.Context()
	cc := &callContext{Context: ctx, call: Call{gate: &s.gate, ctx: ctx, method: info.FullMethod, stream: true}}
	if s.gate.skip != nil && s.gate.skip(&cc.call) {
		return handler(srv, ss)
	}
	permit, err := s.admit(&cc.call)
	defer permit.release()
	if err == nil {
		err = s.handle(srv, handler, s.wrap(ss, cc), &cc.call)
	}
	// Only now is it known which it is: trailers add up, and a limit is to be told once. A handler that goes on after a
	// refusal, and then ends well, was not refused.
	if r, ok := errors.AsType[*refusal](err); ok && r.gate == &s.gate {
		ss.SetTrailer(r.trailer())
	} else if s.tellAllowed && cc.call.decided {
		md := metadata.MD{}
		s.gate.addFields(md, &cc.call.decision)
		ss.SetTrailer(md)
	}
	return err
}

// handle lets the handler handle the stream, and tells how that ended.
func (s *Server) handle(srv any, handler grpc.StreamHandler, ss grpc.ServerStream, c *Call) error {
	if s.outcome == nil {
		return handler(srv, ss)
	}
	tell := s.told(c)
	defer tell(nil)
	err := handler(srv, ss)
	tell(&err)
	return err
}

func (s *Server) wrap(ss grpc.ServerStream, cc *callContext) grpc.ServerStream {
	w := &serverStream{ServerStream: ss, ctx: cc}
	if s.gate.receive != nil {
		c := cc.call
		w.receive = &c
	}
	if s.gate.send != nil {
		c := cc.call
		w.send = &c
	}
	return w
}

// serverStream charges the messages of a stream and gives its context the call. One goroutine may send while another
// receives, so that each direction has a call of its own.
type serverStream struct {
	grpc.ServerStream

	ctx           context.Context //nolint:containedctx // it is the stream's context
	receive, send *Call           // nil where messages are not charged
	refused       error           // of a message that was received, and is lost
}

// Context returns the stream's context, with the decision.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message and charges it.
func (s *serverStream) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || s.receive == nil {
		return err
	}
	s.refused = s.receive.gate.passMessage(s.receive, m, s.receive.gate.receive)
	return s.refused
}

// SendMsg charges a message and sends it.
func (s *serverStream) SendMsg(m any) error {
	if s.send != nil {
		if err := s.send.gate.passMessage(s.send, m, s.send.gate.send); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}
