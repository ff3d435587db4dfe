package accesslog

import (
	"context"
	"time"
)

// batch is how many entries go from the goroutine that reads a log to the one that merges them at a time.
const batch = 256

// batchSize is how many bytes of them make it full.
const batchSize = 1 << 20

// Merged is the requests of several logs in the order of time, each read by a goroutine of its own. Close it when done.
type Merged struct {
	all     []*stream
	streams []*stream // that have not ended
	done    <-chan struct{}
	cancel  context.CancelFunc
	err     error
}

// stream is what comes of one log.
type stream struct {
	chunks chan chunk
	ready  []Entry
	counts Counts // of the log, when what is ready was read
	log    *Log
	err    error // once chunks is closed
}

// chunk is some entries of a log, and what became of its lines up to them.
type chunk struct {
	entries []Entry
	counts  Counts
}

// Merge begins to read the logs.
func Merge(ctx context.Context, logs []*Log) *Merged {
	ctx, cancel := context.WithCancel(ctx)
	m := &Merged{done: ctx.Done(), cancel: cancel}
	for _, l := range logs {
		s := &stream{chunks: make(chan chunk, 4), log: l}
		m.all, m.streams = append(m.all, s), append(m.streams, s)
		go s.read(ctx)
	}
	return m
}

func (s *stream) read(ctx context.Context) {
	defer close(s.chunks)
	for {
		es := make([]Entry, 0, batch)
		// What was read is not kept waiting for what may come through a pipe.
		size := 0
		for len(es) < batch && size < batchSize && s.err == nil && (len(es) == 0 || s.log.r.Buffered()) {
			var e Entry
			if e, s.err = s.log.Next(); s.err == nil {
				es = append(es, e)
				size += e.size
			}
		}
		select {
		case s.chunks <- chunk{es, s.log.Counts}:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
		if s.err != nil {
			return
		}
	}
}

// next makes the stream's next entry ready, and reports whether there is one, or that reading was to end meanwhile.
func (s *stream) next(done <-chan struct{}) (ok, ended bool) {
	for len(s.ready) == 0 {
		select {
		case c, ok := <-s.chunks:
			if !ok {
				return false, false
			}
			s.ready, s.counts = c.entries, c.counts
		case <-done:
			return false, true
		}
	}
	return true, false
}

// Next returns the next request of all, which is the caller's until the one after it is asked for; nil after the last. When it has
// returned nil, Err tells whether that was the end.
func (m *Merged) Next() *Entry {
	var first *stream
	for i := 0; i < len(m.streams); i++ {
		s := m.streams[i]
		ok, ended := s.next(m.done)
		switch {
		case ended:
			m.err = context.Canceled
			return nil
		case !ok:
			if m.err == nil && !isEnd(s.err) {
				m.err = s.err
			}
			m.streams = append(m.streams[:i], m.streams[i+1:]...)
			i--
		case first == nil || s.ready[0].Time.Before(first.ready[0].Time):
			first = s
		}
	}
	if first == nil {
		return nil
	}
	e := &first.ready[0]
	first.ready = first.ready[1:]
	return e
}

// Err is the error that ended a log early, if one did: of the file, or the context's.
func (m *Merged) Err() error { return m.err }

// Close ends the reading and waits for it, but not for what a pipe may still bring: that is left alone until it comes.
func (m *Merged) Close() {
	m.cancel()
	for _, s := range m.all {
		for ended := false; !ended; {
			select {
			case _, ok := <-s.chunks:
				ended = !ok
			case <-time.After(patience):
				ended = s.log.r.waits.Load()
			}
		}
	}
}

// patience is how long Close waits before it looks whether a log waits for its input.
const patience = 20 * time.Millisecond

// Counts are those of all logs together, up to the requests that Next has returned, and a few lines more.
func (m *Merged) Counts() Counts {
	var c Counts
	for _, s := range m.all {
		c.add(&s.counts)
	}
	return c
}
