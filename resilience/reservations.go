package resilience

import (
	"context"
	"errors"
	"sync"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// reservations remembers which local buckets a reservation that was made alone charged.
type reservations struct {
	mu   sync.Mutex
	byID map[string]reservation
}

type reservation struct {
	outage uint32
	local  []tidegate.Charge // names the local buckets
	of     []tidegate.Charge // names the store's of some of them, in the same order
	until  int64             // ns
}

// maxReservations bounds them; one that is forgotten stays charged.
const maxReservations = 1 << 16

// reservation returns what is to be remembered of a take that was decided alone.
func (a *alone) reservation(charges []tidegate.Charge, until int64) reservation {
	r := reservation{outage: a.outage, local: make([]tidegate.Charge, len(a.local)), of: make([]tidegate.Charge, len(a.local)), until: until}
	for i := range a.local {
		r.local[i] = algo.Named(&a.local[i])
	}
	for i := range charges {
		if at := a.places[i].at; at >= 0 && counted(&charges[i]) {
			r.of[at] = algo.Named(&charges[i])
			r.of[at].Cost = charges[i].Cost
		}
	}
	return r
}

func (r *reservations) add(id string, made reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]reservation{}
	}
	if len(r.byID) >= maxReservations {
		for other := range r.byID {
			delete(r.byID, other)
			break
		}
	}
	r.byID[id] = made
}

func (r *reservations) find(id string, now int64) (reservation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	made, ok := r.byID[id]
	return made, ok && now < made.until
}

func (r *reservations) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

func (r *reservations) sweep(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, made := range r.byID {
		if now >= made.until {
			delete(r.byID, id)
		}
	}
}

// Settle implements [tidegate.Store]. What was reserved in fallback is settled in this process, and with the shared store
// if that was charged with it since. What the shared store holds cannot be settled while it is away: it stays charged.
func (s *Store) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if err := s.ready(ctx, "settle"); err != nil {
		return err
	}
	made, ok := s.made.find(id, s.now())
	if !ok {
		return s.only(ctx, "settle", func(ctx context.Context) error { return s.shared.Settle(ctx, id, charges, cost) })
	}
	err := s.local.Settle(ctx, id, made.local, cost)
	if err == nil || errors.Is(err, tidegate.ErrUnknownID) {
		s.made.drop(id)
	}
	if err != nil {
		return err
	}
	for i := range made.of {
		if c := &made.of[i]; c.Limit != nil && cost != c.Cost {
			s.resettle(ctx, c, &made.local[i], made.outage, c.Cost-cost)
		}
	}
	return nil
}

// resettle makes the shared store follow the settlement of a local bucket for which it was charged already. Less is the
// number of tokens that came back; negative for more that were charged.
func (s *Store) resettle(ctx context.Context, c, local *tidegate.Charge, outage uint32, less int64) {
	for {
		p, owed := s.owed(c, local)
		if owed {
			return // and what is owed follows the bucket
		}
		if p == nil {
			break
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return // what came back stays charged
		}
	}
	if less < 0 {
		s.owe(c, local, outage)
		return
	}
	both := []tidegate.Charge{localCharge(c, kindCharged, local.Limit, outage), *local}
	ds, err := s.local.Take(ctx, both, nil) // a peek
	if err != nil {
		return
	}
	back := min(less, ds[1].Remaining-ds[0].Remaining) // not what has come back by itself
	begun, closed := s.breaker.begin()
	if back <= 0 || !closed {
		return
	}
	refund := *c
	refund.Cost = -back
	if _, v, _ := s.askPlainly(context.WithoutCancel(ctx), begun, refund); v == answered {
		both[0].Cost = -back
		_, _ = s.local.Take(context.WithoutCancel(ctx), both[:1], nil)
	}
}

// owed reports whether what is in use of a local bucket is still owed, or the payment of its key that is under way.
func (s *Store) owed(c, local *tidegate.Charge) (*payment, bool) {
	sh, m := s.memories.lock(c.Rule, c.Key)
	defer sh.mu.Unlock()
	if m == nil {
		return nil, false
	}
	for i := range m.debts {
		if m.debts[i].local.Rule == local.Rule {
			return nil, true
		}
	}
	return m.paying, false
}
