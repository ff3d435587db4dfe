package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What we tell the server of how much it may send. A stream's window is never widened, so that it is also the largest answer.
const (
	largestAnswer    = 1 << 20
	connectionWindow = 1 << 20
)

const (
	largestRequest  = 16 << 10 // with its prefix: one frame of the size that every server takes
	initialWindow   = 64<<10 - 1
	headerTableSize = 4096
	lastStream      = 1<<31 - 1
)

var errHungUp = errors.New("the connection was closed by its own side")

// rawConn is an HTTP/2 connection for unary calls of one gRPC method, from many goroutines at once. It is what a benchmark
// needs and no more: a general client costs as much processor time as a service that it asks, and hides how services differ.
// One goroutine writes what callers have put together meanwhile, one reads and wakes those who are answered. A connection
// that has failed stays so: every call then returns the same error.
type rawConn struct {
	nc      net.Conn
	first   []byte        // the header block of the first request, which fills the server's table
	others  []byte        // that of all others, which refers to the table
	greeted chan struct{} // closed when the server has told its settings
	wake    chan struct{} // holds one: there is something to write
	over    chan struct{} // closed when the connection has failed
	ended   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	err     error      // why it has failed
	out     *http2.Framer
	pending []byte // frames to write, in their order
	waiting map[uint32]*exchange
	next    uint32 // the next stream

	// What the server allows.
	maxStreams   uint32
	streamWindow uint32
	window       int64         // of the connection, what is left of it
	widened      chan struct{} // closed when the window grows; nil while nobody waits
}

// dialRaw connects to a service, to call the one method. It returns when the server has told its settings.
func dialRaw(ctx context.Context, address, method string) (*rawConn, error) {
	first, others, err := headerBlocks(address, method)
	if err != nil {
		return nil, err
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &rawConn{
		nc: nc, first: first, others: others,
		greeted: make(chan struct{}), wake: make(chan struct{}, 1), over: make(chan struct{}),
		waiting: map[uint32]*exchange{}, next: 1,
		maxStreams: math.MaxUint32, streamWindow: initialWindow, window: initialWindow,
	}
	c.out = http2.NewFramer(appender{&c.pending}, nil)
	c.pending = append(c.pending, http2.ClientPreface...)
	if err := errors.Join(
		c.out.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: largestAnswer}),
		c.out.WriteWindowUpdate(0, connectionWindow-initialWindow),
	); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	c.wakeWriter()
	c.ended.Go(c.write)
	c.ended.Go(newRawReader(c, bufio.NewReaderSize(nc, 32<<10)).run)
	select {
	case <-c.greeted:
		return c, nil
	case <-c.over:
		err = c.err // which no longer changes
	case <-ctx.Done():
		err = fmt.Errorf("%s has not told its HTTP/2 settings: %w", address, ctx.Err())
	}
	c.close()
	return nil, err
}

// headerBlocks returns the fields of a request as they are sent first, and ever after. Each field of the second is an index of
// hpack's tables, so that it leaves them as they are and may be repeated.
func headerBlocks(address, method string) (first, others []byte, err error) {
	fields := [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: address},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "tidegate-bench"},
		{Name: "te", Value: "trailers"},
	}
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	encode := func() ([]byte, error) {
		b.Reset()
		for _, f := range fields {
			if err := enc.WriteField(f); err != nil {
				return nil, err
			}
		}
		return bytes.Clone(b.Bytes()), nil
	}
	if first, err = encode(); err != nil {
		return nil, nil, err
	}
	if others, err = encode(); err != nil {
		return nil, nil, err
	}
	if len(others) != len(fields) { // an index takes one byte
		return nil, nil, fmt.Errorf("%s%s is too long for hpack's table of %d bytes", address, method, headerTableSize)
	}
	return first, others, nil
}

// call sends the message and returns the answer, which is valid until the exchange is used again. A status other than OK is
// an error of package status.
func (c *rawConn) call(ctx context.Context, e *exchange, message []byte) ([]byte, error) {
	e.begin(message)
	id, err := c.send(ctx, e)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.done:
		return e.outcome()
	case <-ctx.Done():
		if c.abandon(id) {
			return nil, ctx.Err()
		}
		<-e.done // it was answered just now
		return e.outcome()
	}
}

// send puts a request among the frames to write, as soon as the server's window allows, and returns its stream.
func (c *rawConn) send(ctx context.Context, e *exchange) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := len(e.sent)
	if limit := min(largestRequest, c.streamWindow); size > int(limit) {
		return 0, fmt.Errorf("a request of %d bytes is larger than %d, which is what this client sends in one frame", size, limit)
	}
	for c.err == nil && c.window < int64(size) {
		if err := c.awaitWindow(ctx); err != nil {
			return 0, err
		}
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case len(c.waiting) >= int(c.maxStreams):
		return 0, fmt.Errorf("the server allows %d calls at a time on a connection: use more connections or fewer callers", c.maxStreams)
	case c.next > lastStream:
		return 0, errors.New("the connection has used up the stream numbers of HTTP/2: measure for a shorter time")
	}
	id, block := c.next, c.others
	if id == 1 {
		block = c.first
	}
	if err := errors.Join(
		c.out.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}),
		c.out.WriteData(id, true, e.sent),
	); err != nil {
		return 0, err
	}
	c.next += 2
	c.window -= int64(size)
	c.waiting[id] = e
	c.wakeWriter()
	return id, nil
}

// awaitWindow waits until the connection's window has grown, or the connection has failed. The mutex is held before and after.
func (c *rawConn) awaitWindow(ctx context.Context) error {
	if c.widened == nil {
		c.widened = make(chan struct{})
	}
	widened := c.widened
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-widened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// abandon ends a call that is not waited for any longer, and reports whether it had not ended before.
func (c *rawConn) abandon(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == nil {
		return false
	}
	delete(c.waiting, id)
	_ = c.out.WriteRSTStream(id, http2.ErrCodeCancel) // into memory
	c.wakeWriter()
	return true
}

// fail ends the connection and all calls that wait.
func (c *rawConn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for id, e := range c.waiting {
		c.finish(id, e, err)
	}
	c.widen(0)
	close(c.over)
	_ = c.nc.Close()
}

// close hangs up, and returns when both goroutines have ended.
func (c *rawConn) close() {
	c.fail(errHungUp)
	c.ended.Wait()
}

// finish wakes the caller of a stream. The mutex is held.
func (c *rawConn) finish(id uint32, e *exchange, err error) {
	delete(c.waiting, id)
	e.err = err
	e.done <- struct{}{} // there is room: a call waits for it once
}

// widen adds to the connection's window and wakes those who wait for it. The mutex is held.
func (c *rawConn) widen(n uint32) {
	c.window += int64(n)
	if c.widened != nil {
		close(c.widened)
		c.widened = nil
	}
}

// appender appends what is written.
type appender struct{ to *[]byte }

var _ io.Writer = appender{}

func (a appender) Write(b []byte) (int, error) {
	*a.to = append(*a.to, b...)
	return len(b), nil
}
