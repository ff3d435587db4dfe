package afterwards

import (
	"sync"
	"time"
)

// prompt is the longest that an answer waits for a call. A store in memory or nearby is through by then, and who asks again at
// the answer finds the place free.
const prompt = time.Millisecond

// Calls are those that are under way. The zero Calls are none.
type Calls struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// Do calls f, which has a bound of its own, and returns when that is done, or not so soon.
func (c *Calls) Do(f func()) {
	c.begin()
	done := make(chan struct{})
	go func() {
		defer c.end()
		defer close(done)
		f()
	}()
	timer := time.NewTimer(prompt)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (c *Calls) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == 1 {
		c.none = make(chan struct{})
	}
}

func (c *Calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.none)
	}
}

// Wait returns when no call is under way, or all that were have had the time that each is bound to.
func (c *Calls) Wait(bound time.Duration) {
	c.mu.Lock()
	n, none := c.n, c.none
	c.mu.Unlock()
	if n == 0 {
		return
	}
	timer := time.NewTimer(bound + prompt)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
