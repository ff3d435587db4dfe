package due

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// parts is into how many parts of the timeout calls are gathered. More of them make deadlines more exact, and timers more frequent.
const parts = 32

// Group bounds the calls of one store. It holds channels and timers, so that it is a store's own: those of a test's bubble are of
// no use in another. Nothing has to be closed: a timer that is still to come when the store is closed holds only itself, and
// goes within the timeout. Create it with [NewGroup].
type Group struct {
	timeout time.Duration
	width   time.Duration // of a part
	mu      sync.Mutex    // held by who makes the next part
	latest  atomic.Pointer[part]
}

// part is a part of the timeout, and the deadline of the calls that begin within it.
type part struct {
	began time.Time
	at    time.Time // when their deadline is: a timeout after the first of them began

	once sync.Once
	over chan struct{} // closed at that time; nil until somebody waits for it
}

// NewGroup returns a group whose calls are given a timeout.
func NewGroup(timeout time.Duration) *Group {
	return &Group{timeout: timeout, width: timeout / parts}
}

// Bound returns a context of the parent's whose deadline is that of the other calls that begin about now. That is never later
// than a timeout from now, and earlier by less than a 32nd of it. Release it when the call has returned.
func (g *Group) Bound(parent context.Context) *Context {
	p := g.latest.Load()
	if p == nil || time.Since(p.began) >= g.width {
		p = g.next()
	}
	return &Context{parent: parent, part: p}
}

// next returns the part that begins now, unless another caller has just made it.
func (g *Group) next() *part {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p := g.latest.Load()
	if p == nil || now.Sub(p.began) >= g.width {
		p = &part{began: now, at: now.Add(g.timeout)}
		g.latest.Store(p)
	}
	return p
}

// wait returns the channel that is closed when the deadline has come.
func (p *part) wait() <-chan struct{} {
	p.once.Do(func() {
		over := make(chan struct{})
		p.over = over
		time.AfterFunc(time.Until(p.at), func() { close(over) })
	})
	return p.over
}
