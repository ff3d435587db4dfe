package due

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Context is the context of one call. It tells of its end by the clock and its parent until somebody asks for more: for a channel,
// or why it ended. Then it makes what context.WithDeadline returns, and is that from then on; so whatever is derived from it, and
// [context.Cause], find what they look for. If nobody asks before both have ended it, it says that the parent did, whichever came first.
type Context struct {
	parent context.Context //nolint:containedctx // it is one
	part   *part

	mu       sync.Mutex // held by who makes the whole or releases it
	full     atomic.Pointer[full]
	released atomic.Bool // before anything else ended it, and without having been made
}

var _ context.Context = (*Context)(nil)

// full is what the standard library makes of a parent and a deadline.
type full struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc
}

// Deadline returns when the call is given up.
func (c *Context) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && d.Before(c.part.at) {
		return d, true
	}
	return c.part.at, true
}

// Done returns a channel that is closed when the call is given up, its caller leaves or it is released. Who only waits for the
// first two does so at a lower price by [Ends].
func (c *Context) Done() <-chan struct{} { return c.whole().Done() }

// Err returns why the call is given up, and nil before that.
func (c *Context) Err() error {
	if f := c.full.Load(); f != nil {
		return f.Err()
	}
	if !c.over() && !c.released.Load() {
		return nil
	}
	return c.whole().Err() // the same from now on, whatever else ends
}

// Value returns what the parent has for the key. Why the call ended is such a value too, of a key that only package context
// knows, and asks for after Done or Err.
func (c *Context) Value(key any) any {
	if f := c.full.Load(); f != nil {
		return f.Value(key)
	}
	return c.parent.Value(key)
}

// Release ends the context: the call has returned. A nil Context has nothing to release.
func (c *Context) Release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	f := c.full.Load()
	if f == nil && !c.over() {
		c.released.Store(true)
	}
	c.mu.Unlock()
	if f != nil {
		f.cancel()
	}
}

// over reports whether the caller has left or the deadline has come.
func (c *Context) over() bool { return c.parent.Err() != nil || time.Until(c.part.at) <= 0 }

// whole returns what the standard library makes of the parent and the deadline, the same each time.
func (c *Context) whole() *full {
	if f := c.full.Load(); f != nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.full.Load()
	if f == nil {
		f = &full{}
		if c.released.Load() {
			f.Context, f.cancel = context.WithCancel(context.WithoutCancel(c.parent)) // the parent may have ended since
			f.cancel()
		} else {
			f.Context, f.cancel = context.WithDeadline(c.parent, c.part.at)
		}
		c.full.Store(f)
	}
	return f
}

// Ends returns what to wait for in place of ctx.Done: that the caller has left, or that the deadline has come. When either is
// closed, ctx.Err says which. Of a context that is not this package's gone is its Done, and late is nil. The release of a
// context closes neither: who may wait for longer than the call lasts needs Done.
func Ends(ctx context.Context) (gone, late <-chan struct{}) {
	c, ok := ctx.(*Context)
	if !ok || c.full.Load() != nil || c.released.Load() {
		return ctx.Done(), nil
	}
	return c.parent.Done(), c.part.wait()
}
