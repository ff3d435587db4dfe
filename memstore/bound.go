package memstore

import (
	"context"
	"sync/atomic"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// The short way to a bucket: what a limiter asks again and again, of a rule whose part of the id it has, or of a bucket whose
// place it remembers. It ends in the same shard, under the same lock, as every other way.

var _ tidegate.Binder = (*Store)(nil)

// Bind implements [tidegate.Binder].
func (s *Store) Bind(store tidegate.Store, rule string) tidegate.BoundRule {
	if store != tidegate.Store(s) {
		return nil
	}
	return &boundRule{s, s.ruleOf(rule), rule}
}

type boundRule struct {
	store *Store
	id    id // the rule's part
	rule  string
}

// Take implements [tidegate.BoundRule].
func (r *boundRule) Take(ctx context.Context, key string, limit *tidegate.Limit, version, cost int64) (tidegate.Outcome, tidegate.Waits, error) {
	s := r.store
	if ctx.Err() != nil || s.closed.Load() {
		return tidegate.Outcome{}, tidegate.Waits{}, s.ready(ctx, "take")
	}
	i := s.idIn(r.id, key)
	if p, c := s.takePlain(i, nil, limit, version, cost); p != nil {
		o, w := p.TellPlain(c)
		return o, w, nil
	}
	return halves(s.takeAny(&tidegate.Charge{Rule: r.rule, Key: key, Limit: limit, Version: version, Cost: cost}, i))
}

// Key implements [tidegate.BoundRule].
func (r *boundRule) Key(key string) tidegate.BoundKey {
	return &boundKey{boundRule: r, id: r.store.idIn(r.id, key), key: key}
}

type boundKey struct {
	*boundRule

	id   id
	key  string
	cell atomic.Pointer[cell] // where the state was last, if it was in one
}

// Take implements [tidegate.BoundKey].
func (k *boundKey) Take(ctx context.Context, limit *tidegate.Limit, version, cost int64) (tidegate.Outcome, tidegate.Waits, error) {
	s := k.store
	if ctx.Err() != nil || s.closed.Load() {
		return tidegate.Outcome{}, tidegate.Waits{}, s.ready(ctx, "take")
	}
	if c := k.cell.Load(); c != nil && c.limit == limit && c.version == version {
		// Most takes end at the first try, which is made here: a call would be a good part of what it takes.
		var now int64
		if s.clock == nil { // as s.now does
			now = s.exact()
		} else {
			now = s.clock()
		}
		word, lost := c.word.Load(), false
		if st, charged, ok := c.params.ChargePlain(c.state(word), cost, now); ok && word&closed == 0 {
			if !charged.OK || c.fits(st) && c.word.CompareAndSwap(word, c.wordOf(st)) {
				o, w := c.params.TellPlain(charged)
				return o, w, nil
			}
			lost = true
		}
		if charged, ok := c.take(s, cost, lost); ok {
			o, w := c.params.TellPlain(charged)
			return o, w, nil
		}
	}
	if p, c := s.takePlain(k.id, k, limit, version, cost); p != nil {
		o, w := p.TellPlain(c)
		return o, w, nil
	}
	return halves(s.takeAny(&tidegate.Charge{Rule: k.rule, Key: k.key, Limit: limit, Version: version, Cost: cost}, k.id))
}

// open moves the state of a plain bucket into a cell: the one that it was in last, or a new one. Not that of a bucket which
// changes so seldom that a word has no room for the time between: the next take that passes would be too late for it.
func (k *boundKey) open(t *table, slot int, last int64) {
	st := t.slots[slot].plain()
	pol := t.policy(slot)
	c := k.cell.Load()
	if c == nil || !c.keeps(pol, st) {
		units := unitsOf(pol)
		room := int64(1) << (63 - units)
		if st.Used>>units > 0 || room < k.store.leastRoom/pol.params.Tick() || st.Tick-last > room/16 {
			return
		}
		c = newCell(pol, st.Tick)
		k.cell.Store(c)
	}
	t.bind(slot, c)
}

func halves(d tidegate.Decision, err error) (tidegate.Outcome, tidegate.Waits, error) {
	return tidegate.Outcome{Allowed: d.Allowed, Source: d.Source, Limit: d.Limit, Remaining: d.Remaining},
		tidegate.Waits{RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Delay: d.Delay}, err
}

// takePlain decides a charge of a plain bucket, by the limit that it is under and nothing but two numbers, and returns the limit;
// nil if that is not enough. It opens a cell for the view of the key, if there is one.
func (s *Store) takePlain(i id, k *boundKey, limit *tidegate.Limit, version, cost int64) (*algo.Params, algo.Charged) {
	if cost < 1 || limit == nil || limit.Algorithm > tidegate.LeakyBucket || limit.Warmup > 0 {
		return nil, algo.Charged{}
	}
	// The clock is read before the lock, so that others wait for it less. Whoever had the lock meanwhile may have read it later:
	// then it is read again, so that a bucket's time goes back only if the clock does.
	now := s.now()
	sh := s.shard(i)
	sh.lock()
	slot := sh.look(i)
	if slot < 0 {
		return s.addPlain(sh, i, limit, version, cost, now)
	}
	e := &sh.slots[slot]
	e.ask()
	if e.a&bound != 0 {
		if k != nil {
			k.cell.Store(sh.cells.list[e.a>>valueShift]) // another view's: from now on it is this one's too
		}
		sh.unbind(slot)
	}
	pol := sh.policy(slot)
	if e.a&large != 0 || pol.source != limit || pol.version != version {
		sh.mu.Unlock()
		return nil, algo.Charged{}
	}
	p := pol.params
	before := e.plain()
	after, c, ok := p.ChargePlain(before, cost, now)
	if !ok {
		after, c, ok = p.ChargePlain(before, cost, s.now())
	}
	if ok && c.OK {
		e.set(after.Used, after.Tick)
	}
	if ok && k != nil {
		k.open(&sh.table, slot, before.Tick)
	}
	sh.mu.Unlock()
	if !ok {
		return nil, c
	}
	return p, c
}

// addPlain is takePlain for a bucket that is not there, in a shard that is locked, which it unlocks. It is enough where the limit is
// the one that was asked for last.
func (s *Store) addPlain(sh *shard, i id, limit *tidegate.Limit, version, cost, now int64) (*algo.Params, algo.Charged) {
	pol := s.policies.last(limit, version)
	if pol == nil {
		sh.mu.Unlock()
		return nil, algo.Charged{}
	}
	after, c, ok := pol.params.ChargePlain(algo.Plain{}, cost, now)
	over := false
	if ok && c.OK {
		st := algo.Flat(after.Used, after.Tick)
		over = s.put(sh, i, -1, pol, &st)
	}
	sh.mu.Unlock()
	if over {
		s.makeRoom(func(other id) bool { return other == i })
	}
	if !ok {
		return nil, c
	}
	return pol.params, c
}

// lock locks the shard. Most hold it for less time than it takes to wait for it properly.
func (sh *shard) lock() {
	for range 50 {
		if sh.mu.TryLock() {
			return
		}
	}
	sh.mu.Lock()
}
