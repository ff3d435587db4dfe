package httplimit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
)

// held is what a request that was let in has to give back when its response is complete: a permit, or a charge that
// depends on the status.
type held struct {
	m           *Middleware
	ctx         context.Context //nolint:containedctx // the values of the request's, without its end
	reservation Reservation
	cost        int64
	permit      Permit
	key         string // whose permit, where a queue is for them
	every       time.Duration

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// giveBack bounds a call to the store that the client does not wait for any more.
const giveBack = time.Second

// hold prepares a request to be given back. The client may be gone by then: the context is only for its values.
func (m *Middleware) hold(ctx context.Context) *held {
	return &held{m: m, ctx: context.WithoutCancel(ctx)}
}

// renewing starts to renew the permit. There is no goroutine until the time has come, which for most requests it never does.
func (h *held) renewing(every time.Duration) {
	h.every = every
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(every, h.renew)
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
	err := h.permit.Renew(ctx)

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	if errors.Is(err, tidegate.ErrUnknownID) {
		// The response goes on: to break it off would undo what it has done. Nothing is held from here on.
		if l := h.m.cfg.Logger; l != nil {
			l.Warn("httplimit: the permit of a request expired before it was complete: a shorter RenewEvery or a longer TTL may help")
		}
		return
	}
	h.timer.Reset(h.every) // a store that is away may be back by then
}

// done settles or releases, once.
func (h *held) done(status int) {
	if h == nil {
		return
	}
	h.mu.Lock()
	over := h.over
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	if over {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, giveBack)
	defer cancel()
	if h.permit != nil {
		_ = h.permit.Release(ctx) // what cannot be released expires
		if q := h.m.queue; q != nil {
			q.wake(h.key)
		}
		return
	}
	cost := h.cost
	if !h.m.counts(status) {
		cost = 0
	}
	_ = h.reservation.Settle(ctx, cost) // what cannot be given back stays charged
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

// acquire takes permits where the decider has limits of them.
func (m *Middleware) acquire(ctx context.Context, a *attributes, cost int64, p *Passage) (tidegate.Decision, error) {
	d, permit, err := m.acquirer.AcquireFor(ctx, a, cost)
	if err != nil {
		return d, err
	}
	if permit != nil && d.Allowed {
		m.keep(ctx, permit, "", p)
	}
	if d.Allowed && d.Delay > 0 { // by another limit
		if err = sleep(ctx, nil, d.Delay); err != nil && p.held != nil {
			p.held.done(0)
			p.held = nil
		}
	}
	return d, err
}

// keep holds a permit until the response is complete.
func (m *Middleware) keep(ctx context.Context, permit Permit, key string, p *Passage) {
	h := m.hold(ctx)
	h.permit, h.key = permit, key
	every := m.cfg.RenewEvery
	if every == 0 {
		every = 20 * time.Second
		if m.limiter.Limiter != nil {
			every = max(time.Millisecond, m.limiter.Limit().TTL/3)
		}
	}
	h.renewing(every)
	p.held = h
}

// reserve charges in a way that can be given back: by the status, or when a turn in the queue does not come.
func (m *Middleware) reserve(ctx context.Context, a *attributes, cost int64, p *Passage) (tidegate.Decision, error) {
	var wait, hold time.Duration
	if m.cfg.Count != CountAll {
		hold = m.cfg.SettleWithin
	}
	queued := m.queue != nil && m.queue.enter()
	if queued {
		wait = m.cfg.Queue.Wait
		defer m.queue.leave()
	}
	d, reservation, err := m.reserver.ReserveFor(ctx, a, cost, wait, hold)
	if errors.Is(err, tidegate.ErrUnsupported) && m.cfg.Count == CountAll {
		return m.decider.Decide(ctx, a, cost) // the limit has become one that cannot wait
	}
	if err != nil || !d.Allowed {
		return d, err
	}
	var h *held
	if reservation != nil {
		h = m.hold(ctx)
		h.reservation, h.cost = reservation, cost
	}
	if d.Delay > 0 && m.queue != nil && (!queued || d.Delay > wait) { // the limit has a queue of its own, and a longer one
		h.cancel()
		d.Allowed, d.RetryAfter, d.Delay, d.Remaining = false, max(1, d.Delay-wait), 0, 0
		return d, nil
	}
	if d.Delay > 0 {
		if err := sleep(ctx, m.queue.closed(), d.Delay); err != nil {
			h.cancel()
			return d, err
		}
	}
	if m.cfg.Count != CountAll {
		p.held = h
	}
	return d, nil
}

// cancel gives a reservation back.
func (h *held) cancel() {
	if h == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, giveBack)
	defer cancel()
	_ = h.reservation.Settle(ctx, 0) // what cannot be given back stays charged
}
