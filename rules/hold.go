package rules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

var _ tidegate.Holder = (*Engine)(nil)

// HoldFor implements [tidegate.Holder]: it charges the cost to the buckets of all rules that the attributes fit, as Decide does, and
// takes a permit of each that is one of permits, in one take, all or nothing. What a rule in shadow charged or took is given
// back like the rest.
//
// A rule of a sliding log decides for now. It is [tidegate.ErrUnsupported], with the rule's name, where the terms say CancelWithin.
func (e *Engine) HoldFor(ctx context.Context, attributes tidegate.Attributes, t tidegate.Terms) (tidegate.Decision, tidegate.Hold, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	ev.holds = t.Cost > 0
	if err := ev.match(e.current.Load(), attributes, t.Cost); err != nil {
		return tidegate.Decision{}, nil, err
	}
	if t.Cost <= 0 { // a peek, or a refund, holds nothing
		d, err := e.take(ctx, ev)
		return d, nil, err
	}
	if t.NoPermits {
		ev.leaveOutPermits()
	}
	id, err := ev.setTerms(&t)
	if err != nil {
		return tidegate.Decision{}, nil, err
	}
	d, err := e.take(ctx, ev)
	if err == nil && !d.Allowed {
		d = ev.refusalToTell(d)
	}
	if err != nil || id == "" || !d.Allowed || len(ev.decisions) == 0 {
		return d, nil, err
	}
	if h := e.heldBy(ev, id, &t, d.Delay); h != nil {
		return d, h, nil
	}
	return d, nil, nil
}

// leaveOutPermits drops the charges of permits.
func (ev *evaluation) leaveOutPermits() {
	n := 0
	for i := range ev.charges {
		if ev.charges[i].Limit.Algorithm != tidegate.Concurrency {
			ev.charges[n], ev.hits[n] = ev.charges[i], ev.hits[i]
			n++
		}
	}
	clear(ev.charges[n:])
	clear(ev.hits[n:])
	ev.charges, ev.hits = ev.charges[:n], ev.hits[:n]
}

// setTerms makes the charges such that what they take can be given back, as far as that may be needed, and returns the ID by
// which; empty where it cannot be needed.
func (ev *evaluation) setTerms(t *tidegate.Terms) (id string, err error) {
	reserves := t.MaxWait > 0 || t.CancelWithin > 0
	permits := false
	for i := range ev.charges {
		switch ev.charges[i].Limit.Algorithm {
		case tidegate.LeakyBucket: // its queue delays a start
			reserves = true
		case tidegate.Concurrency:
			permits = permits || ev.charges[i].Cost > 0
		case tidegate.SlidingLog:
			if t.CancelWithin > 0 && ev.charges[i].Cost > 0 && !ev.charges[i].Shadow {
				return "", fmt.Errorf("rules: the limit of rule %q is a sliding log, of which nothing can be given back: "+
					"write a sliding window instead: %w", ev.charges[i].Rule, tidegate.ErrUnsupported)
			}
		default:
		}
	}
	if !reserves && !permits {
		return "", nil
	}
	id = rand.Text()
	for i := range ev.charges {
		c := &ev.charges[i]
		switch a := c.Limit.Algorithm; {
		case c.Cost <= 0 || a == tidegate.SlidingLog:
		case a == tidegate.Concurrency:
			c.ID = id
			if reserves { // all charges of a reservation say the same
				c.Hold = max(0, t.CancelWithin)
			}
		case reserves:
			c.ID, c.MaxWait, c.Hold = id, max(0, t.MaxWait), max(0, t.CancelWithin)
		}
	}
	return id, nil
}

// refusalToTell is the refusal that tells most about when to come again: of a permit only its expiry is known, which is later than
// almost always, so that it must not hide that a rate, say, has nothing for another half a minute.
func (ev *evaluation) refusalToTell(d tidegate.Decision) tidegate.Decision {
	best, permits := -1, false
	for i := range ev.decisions {
		one := &ev.decisions[i]
		switch {
		case ev.charges[i].Shadow || one.Allowed:
		case ev.charges[i].Limit.Algorithm == tidegate.Concurrency:
			permits = permits || one.Rule == d.Rule
		case best < 0 || one.RetryAfter > ev.decisions[best].RetryAfter:
			best = i
		}
	}
	if !permits || best < 0 {
		return d
	}
	return ev.decisions[best]
}

// heldBy returns what the take holds; nil for nothing.
func (e *Engine) heldBy(ev *evaluation, id string, t *tidegate.Terms, delay time.Duration) *engineHold {
	h := &engineHold{store: e.store, id: id}
	reserved := false
	for i := range ev.charges {
		c := &ev.charges[i]
		switch {
		case c.ID == "":
		case c.Limit.Algorithm != tidegate.Concurrency:
			delay = max(delay, ev.decisions[i].Delay) // also of a rule in shadow, whose delay is not the request's
			reserved = true
		case ev.decisions[i].Allowed: // in shadow it may not have been given
			h.permits = append(h.permits, *c)
			if ttl := c.Limit.TTL; h.ttl == 0 || ttl < h.ttl {
				h.ttl = ttl
			}
		}
	}
	if reserved && (delay > 0 || t.CancelWithin > 0) {
		h.reserved = slices.Clone(ev.charges) // a store wants to hear all of them
		if t.CancelWithin > 0 {               // else the store forgets them at the start, by itself
			h.cost = ev.oneCost()
		}
	}
	if h.permits == nil && h.reserved == nil {
		return nil
	}
	return h
}

// oneCost is what each of the charges that can be settled costs; 0 where they differ.
func (ev *evaluation) oneCost() (cost int64) {
	for i := range ev.charges {
		c := &ev.charges[i]
		switch a := c.Limit.Algorithm; {
		case c.ID == "" || a == tidegate.Concurrency || a == tidegate.Unlimited || a == tidegate.None:
		case cost != 0 && c.Cost != cost:
			return 0
		default:
			cost = c.Cost
		}
	}
	return cost
}

// engineHold is what a take holds: permits, a reservation, or both.
type engineHold struct {
	store    tidegate.Store
	id       string
	permits  []tidegate.Charge
	ttl      time.Duration
	reserved []tidegate.Charge // all of the take's
	cost     int64             // of each of them; 0 where they differ, or need not be settled
	over     atomic.Bool
}

// TTL implements [tidegate.Hold]: that of the rule whose permit expires first.
func (h *engineHold) TTL() time.Duration { return h.ttl }

// Renew implements [tidegate.Hold].
func (h *engineHold) Renew(ctx context.Context) error {
	if h.permits == nil {
		return nil
	}
	return h.store.Renew(ctx, h.id, h.permits)
}

// Release implements [tidegate.Hold]. What stays charged is settled as it was charged, so that the store can forget it; a store
// settles all charges of a take for one cost, so that where the rules' differ it forgets them when their time is over.
func (h *engineHold) Release(ctx context.Context) error {
	if h.over.Swap(true) {
		return tidegate.ErrUnknownID
	}
	if h.cost > 0 {
		return h.giveBack(ctx, h.cost)
	}
	return h.release(ctx)
}

// Cancel implements [tidegate.Hold].
func (h *engineHold) Cancel(ctx context.Context) error {
	if h.over.Swap(true) {
		return tidegate.ErrUnknownID
	}
	if h.reserved == nil {
		return h.release(ctx)
	}
	return h.giveBack(ctx, 0)
}

// giveBack settles what is reserved and gives the permits back, also where the one fails: first those that others may wait for.
func (h *engineHold) giveBack(ctx context.Context, cost int64) error {
	err := h.release(ctx)
	return errors.Join(err, h.store.Settle(ctx, h.id, h.reserved, cost))
}

func (h *engineHold) release(ctx context.Context) error {
	if h.permits == nil {
		return nil
	}
	return h.store.Release(ctx, h.id, h.permits)
}
