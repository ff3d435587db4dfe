package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

type (
	serverDuplex = grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]
	clientDuplex = grpc.BidiStreamingClient[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]
)

// message is a message of n bytes.
func message(n int) *testgrpc.StreamingOutputCallRequest {
	return &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, n)}}
}

func duplex(tb testing.TB, ctx context.Context, c testgrpc.TestServiceClient) clientDuplex { //nolint:revive // tb comes first here
	tb.Helper()
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// talk sends a message of n bytes and receives the answer.
func talk(s clientDuplex, n int) error {
	if err := s.Send(message(n)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := s.Recv()
	return err
}

func TestServerChargesMessagesReceived(t *testing.T) {
	api := newLimiter(t, "10/h", "ip")
	bytes := func(c *Call) int64 {
		return int64(len(c.Message().(*testgrpc.StreamingOutputCallRequest).GetPayload().GetBody()))
	}
	free := func(*Call) int64 { return 0 } // the stream itself
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{Cost: free, ReceiveCost: bytes}), &service{}), nil)
	s := duplex(t, t.Context(), c)
	for _, n := range []int{4, 0, 6} {
		if err := talk(s, n); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	err := talk(s, 1)
	wantCode(t, err, codes.ResourceExhausted)
	if d, ok := RetryDelay(err); !ok || d < 5*time.Minute || d > 6*time.Minute {
		t.Errorf("RetryDelay %v %v, want 6m", d, ok)
	}
	if got := s.Trailer().Get("retry-after"); len(got) != 1 || got[0] != "360" {
		t.Errorf("retry-after %q", got)
	}
}

func TestServerChargesMessagesSent(t *testing.T) {
	api := newLimiter(t, "5/h", "ip")
	var sent atomic.Int64
	svc := &service{duplex: func(s serverDuplex) error {
		for {
			if err := s.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
				return fmt.Errorf("sending: %w", err) // the status is found within
			}
			sent.Add(1)
		}
	}}
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{SendCost: One}), svc), nil)
	s := duplex(t, t.Context(), c)
	got := 0
	for {
		if _, err := s.Recv(); err != nil {
			wantCode(t, err, codes.ResourceExhausted)
			if _, ok := RetryDelay(err); !ok {
				t.Error("no RetryInfo")
			}
			break
		}
		got++
	}
	if got != 4 || sent.Load() != 4 { // the stream itself was the fifth
		t.Errorf("received %d, sent %d, want 4", got, sent.Load())
	}
	if got := s.Trailer().Get("grpc-retry-pushback-ms"); len(got) != 1 {
		t.Errorf("pushback %q, want one", got)
	}
}

// A message that was refused on arrival is lost, so that a handler cannot go on as if it had never been sent. One that was
// not sent is not, and a handler may end well.
func TestServerStreamAfterRefusal(t *testing.T) {
	api := newLimiter(t, "2/h", "ip")
	svc := &service{duplex: func(s serverDuplex) error {
		for range 2 {
			if _, err := s.Recv(); codeOf(err) != codes.ResourceExhausted {
				t.Errorf("got %v, want a refusal", err)
			}
		}
		return nil
	}}
	cost := func(*Call) int64 { return 3 }
	c := dial(t, serve(t, newServer(t, api, &ServerConfig{ReceiveCost: cost}), svc), nil)
	s := duplex(t, t.Context(), c)
	_ = s.Send(message(1))
	_ = s.Send(message(1))
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end that the handler chose", err)
	}
	if got := s.Trailer().Get("retry-after"); len(got) != 0 {
		t.Errorf("a stream that ended well has retry-after %q", got)
	}
}

// One goroutine sends while another receives, on each of many streams: each message is charged once.
func TestServerMessagesBothWaysAtOnce(t *testing.T) {
	const streams, each = 8, 50
	api := newLimiter(t, "100000/day", "ip")
	svc := &service{duplex: func(s serverDuplex) error {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range each {
				if err := s.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
					t.Error(err)
				}
			}
		})
		defer wg.Wait()
		for {
			if _, err := s.Recv(); err != nil {
				return ignoreEOF(err)
			}
		}
	}}
	addr := serve(t, newServer(t, api, &ServerConfig{ReceiveCost: One, SendCost: One}), svc)
	out := newLimiter(t, "100000/day", "target")
	c := dial(t, addr, newClient(t, out, &ClientConfig{ReceiveCost: One, SendCost: One}))
	var wg sync.WaitGroup
	for range streams {
		s := duplex(t, t.Context(), c)
		wg.Go(func() {
			for range each {
				if err := s.Send(message(1)); err != nil {
					t.Error(err)
				}
			}
			_ = s.CloseSend()
		})
		wg.Go(func() {
			for {
				if _, err := s.Recv(); err != nil {
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	const want = 100000 - streams*(1+2*each)
	for name, left := range map[string]int64{
		"server": mustPeek(t, api, "127.0.0.1"), "client": mustPeek(t, out, addr),
	} {
		if left < want || left > want+2 { // one or two may have come back
			t.Errorf("%s: %d left, want %d", name, left, want)
		}
	}
}

func TestClientChargesMessages(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  ClientConfig
	}{
		{"sent", ClientConfig{SendCost: One}},
		{"received", ClientConfig{ReceiveCost: One}},
	} {
		t.Run(c.name, func(t *testing.T) {
			api, permits := newLimiter(t, "4/h", "target"), newLimiter(t, "1 concurrent", "")
			c.cfg.Permits = permits
			ended := make(chan error, 1)
			svc := &service{duplex: func(s serverDuplex) error {
				err := echo(s)
				ended <- err
				return err
			}}
			cl := dial(t, serve(t, nil, svc), newClient(t, api, &c.cfg))
			s := duplex(t, t.Context(), cl)
			for i := range 3 {
				if err := talk(s, 1); err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			err := talk(s, 1)
			wantCode(t, err, codes.ResourceExhausted)
			if _, ok := RetryDelay(err); !ok {
				t.Error("no RetryInfo")
			}
			// The refusal ended the stream, on both sides, and is what the stream says from then on.
			if err := <-ended; err == nil {
				t.Error("the server saw no end of the stream")
			}
			if _, err := s.Recv(); codeOf(err) != codes.ResourceExhausted {
				t.Errorf("then received %v", err)
			}
			if err := s.Send(message(1)); err == nil {
				t.Error("then sent a message")
			}
			eventually(t, "the permit is back", func() bool { return free(t, permits, "") == 1 })
		})
	}
}

// A client that consumes slowly slows the server down instead of losing messages.
func TestClientWaitsForMessages(t *testing.T) {
	api := newLimiter(t, "1000/s burst 1", "target")
	limit := newClient(t, api, &ClientConfig{Cost: func(*Call) int64 { return 0 }, ReceiveCost: One, MaxWait: time.Minute})
	const messages = 20
	svc := &service{duplex: func(s serverDuplex) error {
		for range messages {
			if err := s.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		}
		return nil
	}}
	s := duplex(t, t.Context(), dial(t, serve(t, nil, svc), limit))
	start := time.Now()
	for range messages {
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < (messages-1)*time.Millisecond {
		t.Errorf("%d messages at 1000/s took %v", messages, took)
	}
}

// Streams keep what the interceptors stand around: headers, trailers, the peer's end.
func TestStreamsAreOtherwiseUnchanged(t *testing.T) {
	svc := &service{duplex: func(s serverDuplex) error {
		if err := s.SendHeader(metadata.Pairs("x-header", "1")); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs("x-trailer", "2"))
		return echo(s)
	}}
	limit := newServer(t, newLimiter(t, "100/s", "ip"), &ServerConfig{ReceiveCost: One, SendCost: One})
	out := newClient(t, newLimiter(t, "100/s", "target"), &ClientConfig{ReceiveCost: One, SendCost: One})
	s := duplex(t, t.Context(), dial(t, serve(t, limit, svc), out))
	if md, err := s.Header(); err != nil || len(md.Get("x-header")) != 1 {
		t.Errorf("header %v %v", md, err)
	}
	if err := talk(s, 1); err != nil {
		t.Error(err)
	}
	_ = s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got := s.Trailer().Get("x-trailer"); len(got) != 1 {
		t.Errorf("trailer %q", got)
	}
}
