package grpclimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
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

// held is the permit of a call in flight.
type held struct {
	permit *tidegate.Permit
	ttl    time.Duration
	ctx    context.Context //nolint:containedctx // what renews has no caller to take one from

	mu    sync.Mutex
	timer *time.Timer // nil when the permit was given back, or is lost
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
	h := &held{permit: p, ttl: l.Limit().TTL, ctx: context.WithoutCancel(c.ctx)}
	h.mu.Lock()
	h.timer = time.AfterFunc(h.ttl/3, h.renew)
	h.mu.Unlock()
	return h, nil
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
	case h.timer == nil:
	case err == nil:
		h.timer.Reset(h.ttl / 3)
	case errors.Is(err, tidegate.ErrUnknownID):
		h.timer = nil
	default:
		h.timer.Reset(h.ttl / 6)
	}
}

// release gives the permit back, once, however often it is called.
func (h *held) release() {
	if h == nil {
		return
	}
	h.mu.Lock()
	held := h.timer != nil
	if held {
		h.timer.Stop()
		h.timer = nil
	}
	h.mu.Unlock()
	if !held {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, releaseTimeout)
	defer cancel()
	_ = h.permit.Release(ctx) // one that cannot be given back expires
}
