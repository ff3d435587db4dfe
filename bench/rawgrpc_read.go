package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawReader reads what the server sends on a connection.
type rawReader struct {
	c      *rawConn
	in     *http2.Framer
	fields *hpack.Decoder
	head   head   // of the header block that is being read
	ends   bool   // that block ends its stream
	taken  uint32 // bytes that came since the server's window was widened
	known  bool   // the server has told its settings
}

func newRawReader(c *rawConn, from io.Reader) *rawReader {
	r := &rawReader{c: c, in: http2.NewFramer(nil, from)}
	r.in.SetReuseFrames()
	r.in.SetMaxReadFrameSize(16 << 10) // which is what servers may send unless they are told otherwise
	r.fields = hpack.NewDecoder(headerTableSize, func(f hpack.HeaderField) {
		switch f.Name {
		case ":status":
			r.head.http = f.Value
		case "grpc-status":
			r.head.code = f.Value
		case "grpc-message":
			r.head.message = f.Value
		}
	})
	return r
}

// run reads until the connection fails.
func (r *rawReader) run() {
	for {
		f, err := r.in.ReadFrame()
		if err == nil {
			err = r.frame(f)
		} else if detail := r.in.ErrorDetail(); detail != nil {
			err = fmt.Errorf("%w: %w", err, detail)
		}
		if err != nil {
			r.c.fail(fmt.Errorf("reading: %w", err))
			return
		}
	}
}

// frame does what a frame is about. An error ends the connection.
func (r *rawReader) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.DataFrame:
		return r.data(f)
	case *http2.HeadersFrame:
		r.head, r.ends = head{}, f.StreamEnded()
		return r.block(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return r.block(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.SettingsFrame:
		return r.settings(f)
	case *http2.WindowUpdateFrame:
		return r.windowUpdate(f)
	case *http2.PingFrame:
		return r.ping(f)
	case *http2.RSTStreamFrame:
		return r.reset(f)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server goes away: %v %q", f.ErrCode, f.DebugData())
	case *http2.PushPromiseFrame:
		return errors.New("the server pushes, which it was told not to")
	}
	return nil // what is neither known nor needed is left alone
}

// data hands a part of an answer to who waits for it.
func (r *rawReader) data(f *http2.DataFrame) error {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.taken += f.Length; r.taken >= connectionWindow/2 { // also for streams that nobody waits for
		if err := c.out.WriteWindowUpdate(0, r.taken); err != nil {
			return err
		}
		r.taken = 0
		c.wakeWriter()
	}
	e, err := r.stream(f.StreamID)
	if e == nil {
		return err
	}
	if err := e.add(f.Data()); err != nil {
		c.finish(f.StreamID, e, err)
		c.wakeWriter()
		return c.out.WriteRSTStream(f.StreamID, http2.ErrCodeCancel)
	}
	if f.StreamEnded() {
		c.finish(f.StreamID, e, nil)
	}
	return nil
}

// block reads a part of a header block. It is decoded whether anybody waits for it or not, since it changes the table.
func (r *rawReader) block(id uint32, fragment []byte, whole bool) error {
	if _, err := r.fields.Write(fragment); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	if err := r.fields.Close(); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	e, err := r.stream(id)
	if e == nil {
		return err
	}
	e.update(&r.head)
	if r.ends {
		r.c.finish(id, e, nil)
	}
	return nil
}

// stream returns who waits for a stream: nil if it has ended, and an error if it was never begun. The mutex is held.
func (r *rawReader) stream(id uint32) (*exchange, error) {
	if e := r.c.waiting[id]; e != nil {
		return e, nil
	}
	if id%2 == 0 || id >= r.c.next {
		return nil, fmt.Errorf("the server answers on stream %d, on which nothing was asked", id)
	}
	return nil, nil //nolint:nilnil // an ended stream is neither
}

// settings keeps what the server allows.
func (r *rawReader) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			if s.Val < headerTableSize {
				return fmt.Errorf("the server keeps a header table of %d bytes: this client needs %d", s.Val, headerTableSize)
			}
		case http2.SettingMaxConcurrentStreams:
			c.maxStreams = s.Val
		case http2.SettingInitialWindowSize:
			c.streamWindow = s.Val
		default: // the rest says nothing to a client that sends little
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !r.known {
		r.known = true
		close(c.greeted)
	}
	c.wakeWriter()
	return c.out.WriteSettingsAck()
}

// windowUpdate widens the window of the connection. Those of streams are not used up: a request is smaller.
func (r *rawReader) windowUpdate(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.window+int64(f.Increment) > math.MaxInt32 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	r.c.widen(f.Increment)
	return nil
}

func (r *rawReader) ping(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.wakeWriter()
	return r.c.out.WritePing(true, f.Data)
}

// reset ends the call of a stream that the server has ended out of turn.
func (r *rawReader) reset(f *http2.RSTStreamFrame) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	e, err := r.stream(f.StreamID)
	if e == nil {
		return err
	}
	r.c.finish(f.StreamID, e, fmt.Errorf("the server has reset the stream: %v", f.ErrCode))
	return nil
}
