package grpclimit

import (
	"sync"
	"time"
)

// returns are the calls to the store by which what calls held is given back. A call ends when its interceptors have returned, so
// that whatever is done in them makes the client wait; and a program that stops has to wait for them.
type returns struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// prompt is the longest that a call waits for what it gives back. A store in memory or nearby is through by then, and who asks
// again at the answer finds the place free.
const prompt = time.Millisecond

// do calls f, which has a bound of its own, and returns when that is done, or not so soon.
func (r *returns) do(f func()) {
	r.begin()
	done := make(chan struct{})
	go func() {
		defer r.end()
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

func (r *returns) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.none = make(chan struct{})
	}
}

func (r *returns) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		close(r.none)
	}
}

// wait returns when nothing is under way, or all that was has had its time.
func (r *returns) wait() {
	r.mu.Lock()
	n, none := r.n, r.none
	r.mu.Unlock()
	if n == 0 {
		return
	}
	timer := time.NewTimer(releaseTimeout + prompt)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
