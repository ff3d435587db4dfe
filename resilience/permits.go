package resilience

import (
	"context"
	"sync"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// permits remembers the permits that this process holds. The local store counts them too, in an outage or not, so that
// those held when the store goes away count against the share.
type permits struct {
	mu   sync.Mutex
	held map[permit]*hold
}

type permit struct{ rule, key, id string }

// hold is a permit that is held.
type hold struct {
	charge   tidegate.Charge
	until    int64 // ns
	alone    bool  // the store does not know of it, or not for how long
	released bool  // in an outage: the store does not know
}

// maxPermits bounds them; one that is forgotten is not registered again.
const maxPermits = 1 << 16

func (p *permits) add(c *tidegate.Charge, now int64, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[permit]*hold{}
	}
	if len(p.held) >= maxPermits {
		for k := range p.held {
			delete(p.held, k)
			break
		}
	}
	l := c.Limit.Normalize()
	h := &hold{charge: algo.Named(c), until: now + int64(l.TTL), alone: alone}
	h.charge.Cost, h.charge.ID, h.charge.OnFailure = c.Cost, c.ID, c.OnFailure
	p.held[permit{c.Rule, c.Key, c.ID}] = h
}

// mirror counts locally the permits that the shared store has just given.
func (p *permits) mirror(s *Store, charges []tidegate.Charge, decisions []tidegate.Decision) {
	for i := range charges {
		c := &charges[i]
		if c.Limit.Algorithm != tidegate.Concurrency || c.Cost <= 0 || !decisions[i].Allowed || !allowed(charges, decisions) {
			continue
		}
		p.add(c, s.now(), false)
		local := localCharge(c, kindPermits, c.Limit, 0)
		local.Cost, local.ID = c.Cost, c.ID
		_, _ = s.local.Take(context.Background(), []tidegate.Charge{local}, nil)
	}
}

// localPermits names the local buckets of permits under the limits that hold in an outage.
func (s *Store) localPermits(charges []tidegate.Charge) (local []tidegate.Charge, err error) {
	for i := range charges {
		c := &charges[i]
		if c.Limit == nil || c.Limit.Algorithm != tidegate.Concurrency {
			continue
		}
		l, err := s.limits.of(c.Limit, s.share(c.Rule, c.OnFailure))
		if err != nil {
			return nil, err
		}
		local = append(local, localCharge(c, kindPermits, l, 0))
	}
	return local, nil
}

// Renew implements [tidegate.Store]. While the shared store is away it renews here what this process holds.
func (s *Store) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.hold(ctx, "renew", id, charges, s.shared.Renew, s.local.Renew, func(h *hold, local bool) {
		h.until = s.now() + int64(h.charge.Limit.Normalize().TTL)
		h.alone = h.alone || local
	})
}

// Release implements [tidegate.Store]. While the shared store is away it releases here what this process holds, and tells
// the shared store when it is back.
func (s *Store) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.hold(ctx, "release", id, charges, s.shared.Release, s.local.Release, func(h *hold, _ bool) { h.released = true })
}

type permitCall func(ctx context.Context, id string, charges []tidegate.Charge) error

// hold renews or releases a permit at the shared store and here, or here alone while that is away.
func (s *Store) hold(ctx context.Context, op, id string, charges []tidegate.Charge, shared, local permitCall, note func(h *hold, local bool)) error {
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	mine, err := s.localPermits(charges)
	if err != nil {
		return err
	}
	var cause error
	if begun, closed := s.breaker.begin(); closed {
		v, err := s.call(ctx, begun, op, func(ctx context.Context) error { return shared(ctx, id, charges) })
		if v != failed && (v != answered || err == nil || !s.permits.knows(charges, id, s.now(), true)) {
			if err == nil && len(mine) > 0 {
				_ = local(ctx, id, mine) // which may not know it: another process took it
				s.permits.note(charges, id, false, note)
			}
			return err
		}
		cause = err
	}
	// What all policies let pass is held, but counted in no bucket here.
	if !s.permits.knows(charges, id, s.now(), false) {
		return s.away(op, cause) // the shared store may hold it for another process
	}
	_ = local(ctx, id, mine)
	s.permits.note(charges, id, true, note)
	return nil
}

// knows reports whether this process holds a permit, be it only one of which the store may not know.
func (p *permits) knows(charges []tidegate.Charge, id string, now int64, alone bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range charges {
		h := p.held[permit{charges[i].Rule, charges[i].Key, id}]
		if h != nil && !h.released && now < h.until && (h.alone || !alone) {
			return true
		}
	}
	return false
}

func (p *permits) note(charges []tidegate.Charge, id string, local bool, f func(h *hold, local bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range charges {
		if h := p.held[permit{charges[i].Rule, charges[i].Key, id}]; h != nil {
			f(h, local)
			if h.released && !local {
				delete(p.held, permit{charges[i].Rule, charges[i].Key, id})
			}
		}
	}
}

// sweep forgets the permits that have expired.
func (p *permits) sweep(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, h := range p.held {
		if now >= h.until {
			delete(p.held, k)
		}
	}
}

// back tells the store what became of permits while it was away. What finds no place there stays held here.
func (p *permits) back(s *Store) {
	p.mu.Lock()
	var todo []hold
	for k, h := range p.held {
		if h.alone || h.released {
			todo = append(todo, *h)
		}
		if h.released {
			delete(p.held, k)
		}
	}
	p.mu.Unlock()
	if len(todo) == 0 {
		return
	}
	register := func() {
		for i := range todo {
			if s.closed.Load() || !s.register(&todo[i]) {
				return // the rest expires
			}
		}
	}
	if s.steps != nil {
		register()
		return
	}
	s.running.Go(register)
}

// register tells the store of one permit, and reports whether to go on.
func (s *Store) register(h *hold) bool {
	named := []tidegate.Charge{algo.Named(&h.charge)}
	begun, closed := s.breaker.begin()
	if !closed {
		return false
	}
	v, err := s.call(context.Background(), begun, "register", func(ctx context.Context) error {
		if h.released {
			return s.shared.Release(ctx, h.charge.ID, named)
		}
		return s.shared.Renew(ctx, h.charge.ID, named)
	})
	if v == failed {
		return false
	}
	if err != nil && !h.released {
		ctx := context.Background()
		bounded, ours, own := s.bound(ctx)
		ds, v, _ := s.ask(ctx, bounded, own, begun, []tidegate.Charge{h.charge}, nil)
		ours.Release()
		if v != answered {
			return false
		}
		if !ds[0].Allowed {
			return true
		}
	}
	s.permits.mu.Lock()
	defer s.permits.mu.Unlock()
	if now := s.permits.held[permit{h.charge.Rule, h.charge.Key, h.charge.ID}]; now != nil {
		now.alone = false
	}
	return true
}
