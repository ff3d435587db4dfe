package httplimit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
)

// held is what a request that was let in has to give back when its response is complete: permits, or a charge that depends
// on the status.
type held struct {
	m    *Middleware
	ctx  context.Context //nolint:containedctx // the values of the request's, without its end
	hold tidegate.Hold
	line string // of the queue, where somebody may wait for the permits

	mu    sync.Mutex
	every time.Duration
	timer *time.Timer
	lost  bool // a permit
	over  bool
}

// giveBack bounds a call to the store that the client does not wait for any more.
const giveBack = time.Second

// keep prepares what is held to be given back, and begins to renew its permits. The client may be gone by then: the context
// is only for its values.
func (m *Middleware) keep(ctx context.Context, hold tidegate.Hold, line string) *held {
	h := &held{m: m, ctx: context.WithoutCancel(ctx), hold: hold, line: line}
	ttl := hold.TTL()
	if ttl == 0 {
		return h
	}
	if h.every = m.cfg.RenewEvery; h.every == 0 {
		h.every = max(time.Millisecond, ttl/3)
	}
	// There is no goroutine until the time has come, which for most requests it never does.
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.every, h.renew)
	return h
}

func (h *held) renew() {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, giveBack)
	defer cancel()
	err := h.hold.Renew(ctx)

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	if errors.Is(err, tidegate.ErrUnknownID) && !h.lost {
		// The response goes on: to break it off would undo what it has done.
		h.lost = true
		h.m.logger().Warn("httplimit: a permit of a request expired before it was complete: a shorter RenewEvery or a longer TTL may help")
	}
	h.timer.Reset(h.every) // a store that is away may be back by then, and of several permits the others are held on
}

// end stops the renewal, and reports whether this is the first time.
func (h *held) end() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.over
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
	return first
}

// done gives back what the status leaves to be given back, once. It does not wait for a store that is slow.
func (h *held) done(status int) {
	if h == nil || !h.end() {
		return
	}
	back := h.hold.Release
	if !h.m.counts(status) {
		back = h.hold.Cancel
	}
	h.m.returns.Do(func() { h.giveBack(back) })
}

// cancel gives all back of a request that is not served, once.
func (h *held) cancel() {
	if h != nil && h.end() {
		h.giveBack(h.hold.Cancel)
	}
}

func (h *held) giveBack(back func(context.Context) error) {
	ctx, cancel := context.WithTimeout(h.ctx, giveBack)
	defer cancel()
	_ = back(ctx) // what cannot be released expires, and what cannot be cancelled stays charged
	if q := h.m.queue; q != nil && h.hold.TTL() > 0 {
		q.wake(h.line)
	}
}

// counts reports whether a request with this status stays charged.
func (m *Middleware) counts(status int) bool {
	failed := status >= http.StatusBadRequest
	if m.cfg.Failed != nil {
		failed = m.cfg.Failed(status)
	}
	switch m.cfg.Count {
	case CountFailures:
		return failed
	case CountSuccesses:
		return !failed
	case CountAll:
	}
	return true
}

// hold asks a holder: it waits for a turn as far as the queue allows, and keeps what is to be given back in the end.
func (m *Middleware) hold(ctx context.Context, a *attributes, cost int64, p *Passage) (tidegate.Decision, error) {
	t := tidegate.Terms{Cost: cost}
	if m.cfg.Count != CountAll {
		t.CancelWithin = m.cfg.SettleWithin
	}
	d, hold, err := m.holder.HoldFor(ctx, a, t)
	if err != nil {
		return d, err
	}
	q := m.queue
	// A place in the queue is taken only for a wait: while a slow store is asked for what it may let pass at once, others
	// can have it.
	switch {
	case !d.Allowed:
		if q == nil || !m.mayWait(&d) || !q.enter() {
			return d, nil
		}
		defer q.leave()
		if d, hold, err = m.holdInTurn(ctx, a, t); err != nil || !d.Allowed {
			return d, err
		}
	case d.Delay > 0 && q != nil: // the limit has a queue of its own, which this one bounds
		inTime := d.Delay <= q.Wait
		if !inTime || !q.enter() {
			if hold != nil {
				m.keep(ctx, hold, holderLine).cancel()
			}
			d.Allowed, d.RetryAfter, d.Delay, d.Remaining = false, d.Delay, 0, 0
			if !inTime {
				d.RetryAfter -= q.Wait
			}
			return d, nil
		}
		defer q.leave()
	}
	if hold == nil {
		return d, sleep(ctx, q.closed(), d.Delay)
	}
	h := m.keep(ctx, hold, holderLine)
	if err := sleep(ctx, q.closed(), d.Delay); err != nil {
		h.cancel()
		return d, err
	}
	if hold.TTL() > 0 || m.cfg.Count != CountAll {
		p.held = h
	}
	return d, nil
}
