package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// held is what a reservation charged to one bucket; a cost of 0 is a charge in shadow that found no room.
type held struct {
	id     id
	kind   algo.Kind
	cost   int64
	window int64
	limit  int64 // the capacity then
}

// reservations remembers what can be settled, and until when.
type reservations struct {
	mu   sync.Mutex
	byID map[string]reservation
}

type reservation struct {
	parts []held
	until int64 // µs
}

func (r *reservations) init() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID = make(map[string]reservation)
}

// add remembers a reservation for as long as it can be settled: until it starts, and for Hold after that.
// Permits need no such memory, for the bucket itself has it.
func (r *reservations) add(s *Store, c *tidegate.Charge, now, delay int64, parts []held) {
	ttl := delay + int64(c.Hold/time.Microsecond)
	if ttl <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(len(r.byID)) >= s.maxKeys {
		for other := range r.byID { // what is forgotten stays charged
			delete(r.byID, other)
			s.evicted.Add(1)
			break
		}
	}
	r.byID[c.ID] = reservation{parts, now + ttl}
}

// take returns the reservation and forgets it, if it is known and charged these buckets.
func (r *reservations) take(id string, ids []id, now int64) (reservation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res, ok := r.byID[id]
	if !ok || res.until <= now || len(res.parts) != len(ids) {
		return reservation{}, false
	}
	for i := range ids {
		if res.parts[i].id != ids[i] {
			return reservation{}, false
		}
	}
	delete(r.byID, id)
	return res, true
}

func (r *reservations) sweep(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, res := range r.byID {
		if res.until <= now {
			delete(r.byID, id)
		}
	}
}

// Settle implements [tidegate.Store].
func (s *Store) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if err := s.ready(ctx, "settle"); err != nil {
		return err
	}
	if cost < 0 {
		return algo.ErrNegativeCost
	}
	if err := checkNamed(charges); err != nil {
		return err
	}
	res, ok := s.reservations.take(id, s.idsOf(charges), s.now())
	if !ok {
		return tidegate.ErrUnknownID
	}
	for i := range charges {
		part := res.parts[i]
		if part.cost == 0 {
			continue
		}
		_, err := s.change(&charges[i], func(p *algo.Params, st *algo.State, _ int64, w algo.Window) bool {
			p.Settle(st, part.cost, cost, part.window, part.limit, p.Kind == part.kind, w)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Renew implements [tidegate.Store].
func (s *Store) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.permits(ctx, "renew", charges, true, func(p *algo.Params, st *algo.State, now int64) bool {
		return p.Renew(st, id, now)
	})
}

// Release implements [tidegate.Store].
func (s *Store) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.permits(ctx, "release", charges, false, func(p *algo.Params, st *algo.State, now int64) bool {
		return p.Release(st, id, now)
	})
}

// permits changes the permits among the buckets, and wants all of them to know the permit, or any.
func (s *Store) permits(ctx context.Context, op string, charges []tidegate.Charge, all bool,
	f func(*algo.Params, *algo.State, int64) bool,
) error {
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	if err := checkNamed(charges); err != nil {
		return err
	}
	known, unknown := 0, 0
	for i := range charges {
		if charges[i].Limit.Algorithm != tidegate.Concurrency {
			continue
		}
		ok, err := s.change(&charges[i], func(p *algo.Params, st *algo.State, now int64, _ algo.Window) bool {
			return p.Kind == algo.Permits && f(p, st, now)
		})
		switch {
		case err != nil:
			return err
		case ok:
			known++
		default:
			unknown++
		}
	}
	if known == 0 || all && unknown > 0 {
		return tidegate.ErrUnknownID
	}
	return nil
}

// change applies f to the bucket of a charge, brought to the present, and keeps the result if f says so.
func (s *Store) change(c *tidegate.Charge, f func(*algo.Params, *algo.State, int64, algo.Window) bool) (bool, error) {
	i := s.idOf(c)
	added := false
	defer func() {
		if added {
			s.makeRoom(func(other id) bool { return other == i })
		}
	}()
	sh := s.shard(i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	slot := sh.find(i)
	var st algo.State
	var current *policy
	if slot >= 0 {
		current, st = sh.policy(slot), sh.state(slot)
		st = st.Clone()
	}
	pol, _, err := s.policies.resolve(current, &st, c, now, s)
	if err != nil {
		return false, err
	}
	now = s.clockOf(pol.params, now)
	w := pol.params.Window(now)
	pol.params.Load(&st, now, w)
	if !f(pol.params, &st, now, w) {
		return false, nil
	}
	added = s.put(sh, i, slot, pol, &st)
	return true, nil
}

// Reset implements [tidegate.Store].
func (s *Store) Reset(ctx context.Context, charges []tidegate.Charge) error {
	if err := s.ready(ctx, "reset"); err != nil {
		return err
	}
	if err := checkNamed(charges); err != nil {
		return err
	}
	for _, i := range s.idsOf(charges) {
		sh := s.shard(i)
		sh.mu.Lock()
		if slot := sh.find(i); slot >= 0 {
			sh.remove(slot)
			s.keys.Add(-1)
		}
		sh.mu.Unlock()
	}
	return nil
}

// checkNamed returns what is wrong with charges that only name buckets.
func checkNamed(charges []tidegate.Charge) error {
	for i := range charges {
		c := algo.Named(&charges[i])
		if err := algo.CheckCharge(&c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) idsOf(charges []tidegate.Charge) []id {
	ids := make([]id, len(charges))
	for i := range charges {
		ids[i] = s.idOf(&charges[i])
	}
	return ids
}
