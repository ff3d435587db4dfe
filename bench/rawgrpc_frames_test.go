package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framesServer is a server that does, frame by frame, what a test says; that of grpc-go is well behaved, and forgives.
type framesServer struct {
	t *testing.T
	*http2.Framer
	fields *hpack.Encoder
	block  bytes.Buffer
}

// serveFrames runs the script against the connection that it returns. The script begins after both sides have told their settings.
func serveFrames(t *testing.T, script func(*framesServer)) *rawConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer l.Close()
		nc, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(nc, preface); err != nil || string(preface) != http2.ClientPreface {
			t.Errorf("the connection begins with %q, %v", preface, err)
		}
		s := &framesServer{t: t, Framer: http2.NewFramer(nc, nc)}
		s.fields = hpack.NewEncoder(&s.block)
		if f, ok := s.next().(*http2.SettingsFrame); !ok || f.IsAck() {
			t.Error("no settings come first")
		}
		if f, ok := s.next().(*http2.WindowUpdateFrame); !ok || f.StreamID != 0 {
			t.Error("the window of the connection is not widened")
		}
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
		if f, ok := s.next().(*http2.SettingsFrame); !ok || !f.IsAck() {
			t.Error("the settings are not acknowledged")
		}
		script(s)
		for { // until the client hangs up
			if _, err := s.ReadFrame(); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return dialTest(t, l.Addr().String())
}

func (s *framesServer) next() http2.Frame {
	f, err := s.ReadFrame()
	if err != nil {
		s.t.Error("server:", err)
		return nil
	}
	return f
}

// request reads the two frames of a request, and returns its stream.
func (s *framesServer) request() uint32 {
	h, ok := s.next().(*http2.HeadersFrame)
	if !ok || !h.HeadersEnded() || h.StreamEnded() {
		s.t.Error("a request does not begin with whole headers")
		return 0
	}
	id := h.StreamID
	if d, ok := s.next().(*http2.DataFrame); !ok || d.StreamID != id || !d.StreamEnded() {
		s.t.Error("a request does not end with its data")
	}
	return id
}

// headers writes a header block of names and values.
func (s *framesServer) headers(id uint32, ends bool, fields ...string) {
	s.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = s.fields.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.block.Bytes(), EndHeaders: true, EndStream: ends, PadLength: 3})
}

// answer answers as a server should.
func (s *framesServer) answer(id uint32, message string) {
	s.headers(id, false, ":status", "200")
	_ = s.WriteDataPadded(id, false, append([]byte{0, 0, 0, 0, byte(len(message))}, message...), []byte{0, 0})
	s.headers(id, true, "grpc-status", "0")
}

// What is no answer is an error that says what came; the connection goes on when only the stream was at fault.
func TestRawBadAnswers(t *testing.T) {
	for _, c := range []struct {
		name, want string
		goesOn     bool
		answer     func(s *framesServer, id uint32)
	}{
		{"reset", "reset the stream: REFUSED_STREAM", true, func(s *framesServer, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeRefusedStream) }},
		{"no gRPC", `HTTP status "404"`, true, func(s *framesServer, id uint32) { s.headers(id, true, ":status", "404") }},
		{"no status", "without a gRPC status", true, func(s *framesServer, id uint32) {
			s.headers(id, false, ":status", "200")
			_ = s.WriteData(id, true, []byte{0, 0, 0, 0, 0})
		}},
		{"status of letters", `"OK" is not a number`, true, func(s *framesServer, id uint32) { s.headers(id, true, ":status", "200", "grpc-status", "OK") }},
		{"no message", "without a message", true, func(s *framesServer, id uint32) { s.headers(id, true, ":status", "200", "grpc-status", "0") }},
		{"compressed", "compressed", true, func(s *framesServer, id uint32) {
			_ = s.WriteData(id, false, []byte{1, 0, 0, 0, 0})
			s.headers(id, true, ":status", "200", "grpc-status", "0")
		}},
		{"cut short", "of 9 bytes, of which 1", true, func(s *framesServer, id uint32) {
			_ = s.WriteData(id, false, []byte{0, 0, 0, 0, 9, 'x'})
			s.headers(id, true, ":status", "200", "grpc-status", "0")
		}},
		{"too much", "more have come", true, func(s *framesServer, id uint32) {
			_ = s.WriteData(id, false, []byte{0, 0, 0, 0, 1, 'x', 'y'})
			if f, ok := s.next().(*http2.RSTStreamFrame); !ok || f.StreamID != id {
				s.t.Error("the stream is not reset")
			}
		}},
		{"another stream", "stream 9, on which nothing was asked", false, func(s *framesServer, _ uint32) { s.answer(9, "x") }},
		{"push", "pushes", false, func(s *framesServer, id uint32) {
			_ = s.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}},
		{"a bad header block", "invalid", false, func(s *framesServer, id uint32) {
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0x7f}, EndHeaders: true})
		}},
		{"window overflow", "FLOW_CONTROL_ERROR", false, func(s *framesServer, _ uint32) { _ = s.WriteWindowUpdate(0, 1<<31-1) }},
		{"going away", `NO_ERROR "for lunch"`, false, func(s *framesServer, id uint32) {
			_ = s.WriteGoAway(id, http2.ErrCodeNo, []byte("for lunch"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := serveFrames(t, func(s *framesServer) {
				c.answer(s, s.request())
				if c.goesOn {
					s.answer(s.request(), "fine")
				}
			})
			e := newExchange()
			if _, err := conn.call(t.Context(), e, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if told, err := conn.call(t.Context(), e, nil); (string(told) == "fine") != c.goesOn {
				t.Errorf("the next call: %q, %v", told, err)
			}
		})
	}
}

// A header block of a call that was cancelled is still read: what it puts into the table, others refer to.
func TestRawLateAnswer(t *testing.T) {
	cancelled := make(chan context.CancelFunc, 1)
	conn := serveFrames(t, func(s *framesServer) {
		id := s.request()
		(<-cancelled)()
		if f, ok := s.next().(*http2.RSTStreamFrame); !ok || f.StreamID != id || f.ErrCode != http2.ErrCodeCancel {
			s.t.Error("the stream is not reset")
		}
		s.answer(id, "late")
		s.answer(s.request(), "fine")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancelled <- cancel
	e := newExchange()
	if told, err := conn.call(ctx, e, nil); err == nil {
		t.Errorf("a call that was cancelled: %q", told)
	}
	if told, err := conn.call(t.Context(), e, nil); string(told) != "fine" {
		t.Errorf("the next call: %q, %v", told, err)
	}
}

// No more is sent than the server's window has room for, and a ping is answered meanwhile.
func TestRawSendsWithinWindow(t *testing.T) {
	const size, callers = 16_000, 6
	conn := serveFrames(t, func(s *framesServer) {
		var ids []uint32
		for range initialWindow / size { // as many as fit
			ids = append(ids, s.request())
		}
		_ = s.WritePing(false, [8]byte{1, 2, 3})
		if f, ok := s.next().(*http2.PingFrame); !ok || !f.IsAck() || f.Data != [8]byte{1, 2, 3} {
			s.t.Error("a ping is not answered, or more is sent than the window has room for")
		}
		_ = s.WriteWindowUpdate(0, 2*size)
		for len(ids) < callers {
			ids = append(ids, s.request())
		}
		for _, id := range ids {
			s.answer(id, "fine")
		}
	})
	atOnce(t, callers, func(int) error {
		_, err := conn.call(t.Context(), newExchange(), make([]byte, size-prefixSize))
		return err
	})
}
