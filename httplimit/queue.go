package httplimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// queue bounds who waits. Those who wait for tokens know how long, and sleep once. Those who wait for a permit stand in a
// line for their key: who releases one wakes the first.
type queue struct {
	Queue
	waiting atomic.Int64
	stop    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	lines map[string][]chan struct{} // by key; the channel wakes who waits
}

// lookEvery is how often the first of a line looks for a permit that was released elsewhere, or that expired.
const lookEvery = 250 * time.Millisecond

var errClosed = errors.New("httplimit: the queue is closed")

func newQueue(q Queue) *queue {
	return &queue{Queue: q, stop: make(chan struct{}), lines: make(map[string][]chan struct{})}
}

func (q *queue) close() { q.once.Do(func() { close(q.stop) }) }

// closed returns what ends the wait, also of no queue.
func (q *queue) closed() <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.stop
}

// enter takes a place among those that wait, if there is one.
func (q *queue) enter() bool {
	select {
	case <-q.stop:
		return false
	default:
	}
	if q.waiting.Add(1) > int64(q.Length) {
		q.waiting.Add(-1)
		return false
	}
	return true
}

func (q *queue) leave() { q.waiting.Add(-1) }

// sleep waits for d, the end of the context or the closing of the queue.
func sleep(ctx context.Context, closed <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return errClosed
	}
}

// join stands at the end of the key's line, and returns what wakes who is first. Who comes first is woken at once.
func (q *queue) join(key string) chan struct{} {
	turn := make(chan struct{}, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key] = append(q.lines[key], turn)
	return turn
}

// empty reports whether nobody stands in the key's line.
func (q *queue) empty(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[key]) == 0
}

// first reports whether the turn is the first of the line.
func (q *queue) first(key string, turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key][0] == turn
}

// quit leaves the line, and wakes who is first then: there may be more permits than one.
func (q *queue) quit(key string, turn chan struct{}) {
	q.mu.Lock()
	line := q.lines[key]
	for i := range line {
		if line[i] == turn {
			line = append(line[:i:i], line[i+1:]...)
			break
		}
	}
	if len(line) == 0 {
		delete(q.lines, key)
	} else {
		q.lines[key] = line
	}
	q.mu.Unlock()
	q.wake(key)
}

// wake lets the first of the line look for a permit.
func (q *queue) wake(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[key]; len(line) > 0 {
		select {
		case line[0] <- struct{}{}:
		default: // it is awake already
		}
	}
}
