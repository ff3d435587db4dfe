package grpclimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/afterwards"
)

const (
	// permitRetry is after which time a caller that found no permit is told to try again at the latest. The decision knows
	// only when one expires; most are given back long before.
	permitRetry = time.Second
	// releaseTimeout bounds the return of a permit, whose call may be over by its context.
	releaseTimeout = time.Second
)

// permits are places for calls in flight.
type permits struct {
	limiter *tidegate.Limiter // nil for none
	by      string            // the attribute that the key comes from; empty for one key
}

// permit is what is held: a [tidegate.Permit], or a [tidegate.Hold].
type permit interface {
	Renew(ctx context.Context) error
	Release(ctx context.Context) error
}

// held is the permit of a call in flight.
type held struct {
	permit  permit
	ttl     time.Duration   // 0 for a charge alone
	ctx     context.Context //nolint:containedctx // what renews has no caller to take one from
	returns *afterwards.Calls
	also    *held // another one of the call's; nil for none

	mu    sync.Mutex
	timer *time.Timer // nil when there is nothing to renew
	over  bool        // it was given back
}

// acquire takes a permit for the call, which is nil where none is asked for. The error has a gRPC status.
func (g *gate) acquire(c *Call) (*held, error) {
	l := g.permits.limiter
	if l == nil {
		return nil, nil //nolint:nilnil // release of nil does nothing
	}
	key := ""
	if by := g.permits.by; by != "" {
		v, ok := c.Attribute(by)
		if !ok {
			return nil, nil //nolint:nilnil // a limit whose attribute a call does not have does not apply to it
		}
		key = v
	}
	p, err := l.Acquire(c.ctx, key)
	if err != nil {
		return nil, g.failed(c, err)
	}
	if !p.OK() {
		d := p.Decision()
		if d.RetryAfter != tidegate.Never && !d.Unavailable() {
			d.RetryAfter = min(d.RetryAfter, permitRetry)
		}
		return nil, g.refuse(d)
	}
	if p.ID() == "" {
		return nil, nil //nolint:nilnil // there is no limit, and nothing to give back
	}
	return g.keep(c.ctx, p, l.Limit().TTL), nil
}

// keep holds what a call has taken until it is released, and renews it as long as the call takes.
func (g *gate) keep(ctx context.Context, p permit, ttl time.Duration) *held {
	h := &held{permit: p, ttl: ttl, ctx: context.WithoutCancel(ctx), returns: &g.returns}
	if ttl > 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.timer = time.AfterFunc(ttl/3, h.renew)
	}
	return h
}

// and returns what holds both.
func (h *held) and(other *held) *held {
	if h == nil {
		return other
	}
	h.also = other
	return h
}

// renew holds the permit for longer, as long as the call takes. One that the store has let go of is not asked for again:
// a call that runs is not cut off for it. A store that fails is asked once more before the permit expires, and from then on
// in vain, unless it has kept it.
func (h *held) renew() {
	ctx, cancel := context.WithTimeout(h.ctx, h.ttl/6)
	defer cancel()
	err := h.permit.Renew(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
	case err == nil, errors.Is(err, tidegate.ErrUnknownID): // a call may have several, of which the others are held on
		h.timer.Reset(h.ttl / 3)
	default:
		h.timer.Reset(h.ttl / 6)
	}
}

// release gives the permits back, once, however often it is called. It does not wait for a store that is slow.
func (h *held) release() {
	if h == nil {
		return
	}
	if h.end() {
		h.returns.Do(func() { h.giveBack(h.permit.Release) })
	}
	h.also.release()
}

// cancel gives back all that the hold charged and took, once.
func (h *held) cancel(hold tidegate.Hold) {
	if h != nil && h.end() {
		h.giveBack(hold.Cancel)
	}
}

func (h *held) giveBack(back func(context.Context) error) {
	ctx, cancel := context.WithTimeout(h.ctx, releaseTimeout)
	defer cancel()
	_ = back(ctx) // a permit that cannot be given back expires, and a charge stays
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
