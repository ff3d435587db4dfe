package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// plainBytes hands messages on as the bytes that they are.
type plainBytes struct{}

func (plainBytes) Name() string { return "proto" }

func (plainBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (plainBytes) Unmarshal(data mem.BufferSlice, v any) error {
	b := v.(*[]byte)
	*b = append((*b)[:0], data.Materialize()...)
	return nil
}

const testMethod = "/test.Bytes/Do"

// serveBytes serves testMethod by a server of grpc-go on a free port, until the test ends.
func serveBytes(tb testing.TB, do func(context.Context, []byte) ([]byte, error), opts ...grpc.ServerOption) (*grpc.Server, string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.ForceServerCodecV2(plainBytes{}))...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Bytes", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Do",
			Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var in []byte
				if err := dec(&in); err != nil {
					return nil, err
				}
				return do(ctx, in)
			},
		}},
	}, nil)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	tb.Cleanup(func() { s.Stop(); served.Wait() })
	return s, l.Addr().String()
}

func echo(_ context.Context, b []byte) ([]byte, error) { return b, nil }

func dialTest(tb testing.TB, address string) *rawConn {
	tb.Helper()
	c, err := dialRaw(tb.Context(), address, testMethod)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.close)
	return c
}

// atOnce runs the callers at the same time, and fails the test with what any of them returns.
func atOnce(t *testing.T, callers int, f func(caller int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			if err := f(caller); err != nil {
				t.Errorf("caller %d: %v", caller, err)
			}
		})
	}
	wg.Wait()
}

// Every caller gets the answer to its own request, on connections that many share.
func TestRawAnswersMatch(t *testing.T) {
	_, address := serveBytes(t, echo)
	var conns [connections]*rawConn
	for i := range conns {
		conns[i] = dialTest(t, address)
	}
	atOnce(t, serviceCallers, func(caller int) error {
		e := newExchange()
		for n := range 300 {
			message := bytes.Repeat(fmt.Appendf(nil, "%d/%d ", caller, n), n%17)
			told, err := conns[caller%connections].call(t.Context(), e, message)
			if err != nil {
				return err
			}
			if !bytes.Equal(told, message) {
				return fmt.Errorf("asked %q, was told %q", message, told)
			}
		}
		return nil
	})
	for _, c := range conns {
		if len(c.waiting) != 0 {
			t.Errorf("%d streams are kept that have ended", len(c.waiting))
		}
	}
}

// Requests that together exceed the server's window many times over wait for it to be widened.
func TestRawRespectsServersWindow(t *testing.T) {
	_, address := serveBytes(t, echo)
	c := dialTest(t, address)
	atOnce(t, serviceCallers, func(caller int) error {
		e := newExchange()
		message := bytes.Repeat([]byte{byte(caller)}, largestRequest-prefixSize)
		for range 20 {
			told, err := c.call(t.Context(), e, message)
			if err != nil {
				return err
			}
			if !bytes.Equal(told, message) {
				return errors.New("the answer is not what was asked")
			}
		}
		return nil
	})
	_, err := c.call(t.Context(), newExchange(), make([]byte, largestRequest-prefixSize+1))
	if err == nil || !strings.Contains(err.Error(), "larger than 16384") {
		t.Errorf("a request of more than a frame: %v", err)
	}
}

// Answers of many frames, which together exceed the window of the connection, arrive whole; one that exceeds that of its
// stream is an error of its call alone.
func TestRawLargeAnswers(t *testing.T) {
	_, address := serveBytes(t, func(_ context.Context, b []byte) ([]byte, error) {
		return bytes.Repeat(b[:1], int(binary.BigEndian.Uint32(b[1:]))), nil
	})
	c := dialTest(t, address)
	ask := func(e *exchange, filler byte, size int) ([]byte, error) {
		return c.call(t.Context(), e, binary.BigEndian.AppendUint32([]byte{filler}, uint32(size)))
	}
	atOnce(t, 16, func(caller int) error {
		e := newExchange()
		for n := range 10 {
			size := 200_000 + 1000*n
			told, err := ask(e, byte(caller), size)
			if err != nil {
				return err
			}
			if len(told) != size || bytes.Count(told, []byte{byte(caller)}) != size {
				return fmt.Errorf("%d bytes of %d, or not its own", len(told), size)
			}
		}
		return nil
	})
	e := newExchange()
	if told, err := ask(e, 'x', largestAnswer-prefixSize); err != nil || len(told) != largestAnswer-prefixSize {
		t.Errorf("the largest answer: %d bytes, %v", len(told), err)
	}
	if _, err := ask(e, 'x', largestAnswer); err == nil || !strings.Contains(err.Error(), "larger than this client takes") {
		t.Errorf("an answer that is too large: %v", err)
	}
	if told, err := ask(e, 'x', 3); string(told) != "xxx" {
		t.Errorf("after one that was too large: %q, %v", told, err)
	}
}

// A status is an error with its code and its message, and costs the connection nothing.
func TestRawStatus(t *testing.T) {
	_, address := serveBytes(t, func(_ context.Context, b []byte) ([]byte, error) {
		if len(b) == 0 {
			return nil, status.Error(codes.ResourceExhausted, "100 % für heute")
		}
		return b, nil
	})
	c := dialTest(t, address)
	e := newExchange()
	for range 3 {
		_, err := c.call(t.Context(), e, nil)
		if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != "100 % für heute" {
			t.Fatalf("refused: %v", err)
		}
		if told, err := c.call(t.Context(), e, []byte("x")); string(told) != "x" {
			t.Fatalf("after a refusal: %q, %v", told, err)
		}
	}
	other, err := dialRaw(t.Context(), address, "/test.Bytes/Unknown")
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.call(t.Context(), e, nil); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that is not there: %v", err)
	}
}

// More fields than a frame holds come in several; what they change in the table holds for the answers after them.
func TestRawLongHeaders(t *testing.T) {
	long := strings.Repeat("so long, ", 5000)
	_, address := serveBytes(t, func(_ context.Context, b []byte) ([]byte, error) {
		if len(b) == 0 {
			return nil, status.Error(codes.Internal, long)
		}
		return b, nil
	})
	c := dialTest(t, address)
	e := newExchange()
	for range 3 {
		if _, err := c.call(t.Context(), e, nil); status.Convert(err).Message() != long {
			t.Fatalf("the message has %d bytes, not %d", len(status.Convert(err).Message()), len(long))
		}
		if told, err := c.call(t.Context(), e, []byte("x")); string(told) != "x" {
			t.Fatalf("after it: %q, %v", told, err)
		}
	}
}

// A server that goes away fails all who wait, and all who come later.
func TestRawServerGoesAway(t *testing.T) {
	for name, stop := range map[string]func(*grpc.Server){"at once": (*grpc.Server).Stop, "gracefully": (*grpc.Server).GracefulStop} {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan struct{}, serviceCallers), make(chan struct{})
			s, address := serveBytes(t, func(ctx context.Context, b []byte) ([]byte, error) {
				asked <- struct{}{}
				select {
				case <-ctx.Done():
				case <-release:
				}
				return b, ctx.Err()
			})
			c := dialTest(t, address)
			var stopping sync.WaitGroup
			stopping.Go(func() {
				for range serviceCallers {
					<-asked
				}
				stop(s)
			})
			atOnce(t, serviceCallers, func(int) error {
				if told, err := c.call(t.Context(), newExchange(), []byte("x")); err == nil {
					return fmt.Errorf("was answered %q", told)
				}
				return nil
			})
			close(release)
			stopping.Wait()
			if _, err := c.call(t.Context(), newExchange(), nil); err == nil {
				t.Error("a connection that has failed takes calls")
			}
		})
	}
}

// A context ends its call and tells the server so; the exchange and the connection go on to be of use.
func TestRawContextEndsCall(t *testing.T) {
	asked, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	_, address := serveBytes(t, func(ctx context.Context, b []byte) ([]byte, error) {
		if len(b) == 0 {
			asked <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
		}
		return b, nil
	})
	c := dialTest(t, address)
	e := newExchange()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if _, err := c.call(ctx, e, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("a call that was cancelled: %v", err)
		}
		<-ended
		if told, err := c.call(t.Context(), e, []byte("x")); string(told) != "x" {
			t.Fatalf("after it: %q, %v", told, err)
		}
	}
}

// A call that waits for the server's window ends with its context too, and with its connection.
func TestRawWaitForWindowEnds(t *testing.T) {
	_, address := serveBytes(t, echo)
	c := dialTest(t, address)
	c.mu.Lock()
	c.window = 0
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.call(ctx, newExchange(), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a window: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, c.close)
	if _, err := c.call(t.Context(), newExchange(), nil); !errors.Is(err, errHungUp) {
		t.Errorf("without a window, hung up: %v", err)
	}
}

// What the server or HTTP/2 does not allow is an error that says so.
func TestRawLimits(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	_, address := serveBytes(t, func(_ context.Context, b []byte) ([]byte, error) {
		asked <- struct{}{}
		<-release
		return b, nil
	}, grpc.MaxConcurrentStreams(2))
	c := dialTest(t, address)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := c.call(t.Context(), newExchange(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-asked
	<-asked
	if _, err := c.call(t.Context(), newExchange(), nil); err == nil || !strings.Contains(err.Error(), "allows 2 calls") {
		t.Errorf("a third call: %v", err)
	}
	close(release)
	wg.Wait()
	c.mu.Lock()
	c.next = lastStream
	c.mu.Unlock()
	if _, err := c.call(t.Context(), newExchange(), nil); err != nil {
		t.Errorf("the last stream: %v", err)
	}
	if _, err := c.call(t.Context(), newExchange(), nil); err == nil || !strings.Contains(err.Error(), "used up") {
		t.Errorf("one more: %v", err)
	}
	_, small := serveBytes(t, echo, grpc.HeaderTableSize(100))
	if _, err := dialRaw(t.Context(), small, testMethod); err == nil || !strings.Contains(err.Error(), "table of 100 bytes") {
		t.Errorf("a server with a small header table: %v", err)
	}
}

// What does not speak HTTP/2, or nothing at all, is found when it is dialled.
func TestRawDialFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for answer := 0; ; answer++ { // until it no longer listens
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			if answer == 0 {
				fmt.Fprint(nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}
		}
	}()
	if _, err := dialRaw(t.Context(), l.Addr().String(), testMethod); err == nil || !strings.Contains(err.Error(), "HTTP/1.1") {
		t.Errorf("a server of HTTP/1.1: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := dialRaw(ctx, l.Addr().String(), testMethod); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that is silent: %v", err)
	}
}

// The second header block means the same as the first however often it is repeated.
func TestRawHeaderBlocks(t *testing.T) {
	first, others, err := headerBlocks("127.0.0.1:1", testMethod)
	if err != nil {
		t.Fatal(err)
	}
	dec := hpack.NewDecoder(headerTableSize, nil)
	want, err := dec.DecodeFull(first)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if got, err := dec.DecodeFull(others); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("repeated: %v, %v; first: %v", got, err, want)
		}
	}
	if _, _, err := headerBlocks("127.0.0.1:1", strings.Repeat("/test", 1000)); err == nil {
		t.Error("a method that the table has no room for is taken")
	}
}

// Whoever waits for a service waits until it listens and is ready, though not for ever.
func TestUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{errors.New("connection refused"), status.Error(codes.Unavailable, ""), status.Error(codes.Unknown, ""), nil}
		calls := 0
		if err := untilAnswered(t.Context(), func(context.Context) error { calls++; return answers[calls-1] }); err != nil || calls != len(answers) {
			t.Errorf("after %d calls: %v", calls, err)
		}
		if err := untilAnswered(t.Context(), func(context.Context) error {
			return status.Error(codes.Unimplemented, "")
		}); status.Code(errors.Unwrap(err)) != codes.Unimplemented {
			t.Errorf("a service without the method: %v", err)
		}
		begun := time.Now()
		err := untilAnswered(t.Context(), func(context.Context) error { return errors.New("connection refused") })
		if waited := time.Since(begun); err == nil || waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("a service that never starts: %v after %v", err, waited)
		}
	})
}

// What a call costs the client. Most of it is the server's, which is in this process.
func BenchmarkRaw(b *testing.B) {
	_, address := serveBytes(b, echo)
	c := dialTest(b, address)
	message := make([]byte, 100)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(p *testing.PB) {
		e := newExchange()
		for p.Next() {
			if _, err := c.call(b.Context(), e, message); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
