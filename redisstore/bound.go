package redisstore

import (
	"context"
	"sync"

	"github.com/tidegate-go/tidegate"
)

// The short way to a bucket that many ask for at once: whoever can join others who wait for it (see alike.go) needs no charge, no
// item and no decision of its own until it is told. All others go the way of [Store.Take].

var _ tidegate.Binder = (*Store)(nil)

// Bind implements [tidegate.Binder].
func (s *Store) Bind(store tidegate.Store, rule string) tidegate.BoundRule {
	if store != tidegate.Store(s) {
		return nil
	}
	return &boundRule{s, rule}
}

type boundRule struct {
	store *Store
	rule  string
}

// Take implements [tidegate.BoundRule].
func (r *boundRule) Take(ctx context.Context, key string, limit *tidegate.Limit, version, cost int64) (tidegate.Outcome, tidegate.Waits, error) {
	t := boundTakes.Get().(*boundTake)
	defer t.leave()
	c := &t.charges[0]
	c.Rule, c.Key, c.Limit, c.Version, c.Cost = r.rule, key, limit, version, cost
	joined, err := false, error(nil)
	if bs := &r.store.batches; bs.byTag != nil || bs.all.lately.Load() != 0 {
		joined, err = r.store.joinWaiting(ctx, c, t.decisions[:1])
	}
	if !joined {
		_, err = r.store.Take(ctx, t.charges[:], t.decisions[:0])
	}
	if err != nil {
		return tidegate.Outcome{}, tidegate.Waits{}, err
	}
	d := &t.decisions[0]
	return tidegate.Outcome{Allowed: d.Allowed, Source: d.Source, Limit: d.Limit, Remaining: d.Remaining},
		tidegate.Waits{RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Delay: d.Delay}, nil
}

// Key implements [tidegate.BoundRule].
func (r *boundRule) Key(key string) tidegate.BoundKey { return &boundKey{r, key} }

type boundKey struct {
	rule *boundRule
	key  string
}

// Take implements [tidegate.BoundKey].
func (k *boundKey) Take(ctx context.Context, limit *tidegate.Limit, version, cost int64) (tidegate.Outcome, tidegate.Waits, error) {
	return k.rule.Take(ctx, k.key, limit, version, cost)
}

// boundTake spares a take its allocations.
type boundTake struct {
	charges   [1]tidegate.Charge
	decisions [1]tidegate.Decision
}

var boundTakes = sync.Pool{New: func() any { return new(boundTake) }}

func (t *boundTake) leave() {
	c := &t.charges[0]
	c.Rule, c.Key, c.Limit = "", "", nil
	boundTakes.Put(t)
}

// joinWaiting decides a take of one plain bucket with others like it that wait for theirs, if there are any. It does not where
// leases or refusals are remembered, which may decide it first. What is wrong with a take that has not joined, the long way says.
func (s *Store) joinWaiting(ctx context.Context, c *tidegate.Charge, decisions []tidegate.Decision) (joined bool, err error) {
	if err := s.ready(ctx, "take"); err != nil || s.leases.Holds() || !s.denied.empty() {
		return false, err
	}
	l, err := s.limits.of(c)
	if err != nil {
		return false, err
	}
	if l.tail == "" || l.shards != nil || c.Limit.Lease > 0 || c.Cost <= 0 || c.Cost > l.params.Capacity {
		return false, nil
	}
	tag := s.tag(c)
	d := s.batches.of(tag)
	if d.lately.Load() != tag+1 {
		return false, nil
	}
	t := simple{limit: l, tag: tag, key: s.bucketKey(c, tag, 0), cost: c.Cost}
	w, nth, done := d.join(&t)
	if w == nil {
		return false, nil
	}
	if err = d.await(ctx, w, nth, done, decisions); err == nil && decisions[0].Allowed && !s.cfg.NoDeniedCache {
		s.denied.drop(t.key) // as forget does
	}
	return true, err
}
