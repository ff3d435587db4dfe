package accesslog

import (
	"context"
	"sync"
)

// batch is how many entries go from the goroutine that reads a log to the one that merges them at a time.
const batch = 256

// Merged is the requests of several logs in the order of time, each read by a goroutine of its own. Close it when done.
type Merged struct {
	logs    []*Log
	streams []*stream
	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error
}

// stream is what comes of one log.
type stream struct {
	entries chan []Entry
	ready   []Entry
	log     *Log
	err     error // once entries is closed
}

// Merge begins to read the logs.
func Merge(ctx context.Context, logs []*Log) *Merged {
	ctx, cancel := context.WithCancel(ctx)
	m := &Merged{logs: logs, cancel: cancel}
	for _, l := range logs {
		s := &stream{entries: make(chan []Entry, 4), log: l}
		m.streams = append(m.streams, s)
		m.running.Go(func() { s.read(ctx) })
	}
	return m
}

func (s *stream) read(ctx context.Context) {
	defer close(s.entries)
	for {
		es := make([]Entry, 0, batch)
		for len(es) < batch && s.err == nil {
			var e Entry
			if e, s.err = s.log.Next(); s.err == nil {
				es = append(es, e)
			}
		}
		select {
		case s.entries <- es:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
		if s.err != nil {
			return
		}
	}
}

// next makes the stream's next entry ready, and reports whether there is one.
func (s *stream) next() bool {
	for len(s.ready) == 0 {
		es, ok := <-s.entries
		if !ok {
			return false
		}
		s.ready = es
	}
	return true
}

// Next returns the next request of all, which is the caller's until the one after it is asked for; nil after the last. When it has
// returned nil, Err tells whether that was the end.
func (m *Merged) Next() *Entry {
	var first *stream
	for i := 0; i < len(m.streams); i++ {
		s := m.streams[i]
		switch {
		case !s.next():
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

// Close ends the reading and waits for it. Then Counts may be asked.
func (m *Merged) Close() {
	m.cancel()
	m.running.Wait()
}

// Counts are those of all logs together.
func (m *Merged) Counts() Counts {
	var c Counts
	for _, l := range m.logs {
		c.add(&l.Counts)
	}
	return c
}
