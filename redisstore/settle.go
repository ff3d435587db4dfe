package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Settle implements [tidegate.Store].
func (s *Store) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if cost < 0 {
		return algo.ErrNegativeCost
	}
	return s.each(ctx, "settle", id, charges, false, func(ctx context.Context, part []item) (int, error) {
		return s.settleGroup(ctx, id, part, cost)
	})
}

// Renew implements [tidegate.Store].
func (s *Store) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.each(ctx, "renew", id, permitsOf(charges), true, func(ctx context.Context, part []item) (int, error) {
		return s.permitGroup(ctx, "renew", id, part)
	})
}

// Release implements [tidegate.Store].
func (s *Store) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.each(ctx, "release", id, permitsOf(charges), false, func(ctx context.Context, part []item) (int, error) {
		return s.permitGroup(ctx, "release", id, part)
	})
}

func permitsOf(charges []tidegate.Charge) []tidegate.Charge {
	var permits []tidegate.Charge
	for i := range charges {
		if charges[i].Limit == nil || charges[i].Limit.Algorithm == tidegate.Concurrency {
			permits = append(permits, charges[i])
		}
	}
	return permits
}

// each applies f to the charges of each slot, and wants any of them to know the id, or all. f returns how many of its
// charges do. Those on limits with shards are looked for where the id may have led them.
func (s *Store) each(ctx context.Context, op, id string, charges []tidegate.Charge, all bool, f func(context.Context, []item) (int, error)) error {
	bounded, cancel, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer cancel()
	named := make([]tidegate.Charge, len(charges))
	for i := range charges {
		named[i] = algo.Named(&charges[i])
	}
	items := make([]item, len(named))
	if err := s.fill(items, named); err != nil {
		return err
	}
	known, rest := 0, items
	for _, c := range choices(items, id) {
		s.place(rest, c)
		var n int
		if n, rest, err = s.eachOf(bounded, rest, f); err != nil {
			return s.failure(ctx, op, err)
		}
		if known += n; !sharded(rest) {
			break
		}
	}
	if known == 0 || all && len(rest) > 0 {
		return tidegate.ErrUnknownID
	}
	return nil
}

// eachOf applies f to the items of each slot, and returns how many of them know what f is about, and the others of slots
// in which none does.
func (s *Store) eachOf(ctx context.Context, items []item, f func(context.Context, []item) (int, error)) (known int, rest []item, err error) {
	forget := func() {
		for i := range items {
			s.denied.forget(items[i].key)
		}
	}
	forget()
	defer forget() // before it, and after it, however it ends
	for _, g := range s.groups(items) {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		n, err := f(ctx, part)
		if err != nil {
			return known, nil, err
		}
		if known += n; n < len(part) {
			rest = append(rest, part...)
		}
	}
	return known, rest, nil
}

// settleGroup settles what a reservation charged in one slot, and returns how many charges that were.
func (s *Store) settleGroup(ctx context.Context, id string, items []item, cost int64) (int, error) {
	a := arguments{keys: []string{s.recordKey(items[0].tag, id)}}
	all := false
	for i := range items {
		a.specs = append(a.specs, items[i].limit) // one a bucket, in order
		a.keys = append(a.keys, items[i].key)
		all = all || items[i].limit.params.Kind != algo.Bucket
	}
	n, err := s.number(ctx, s.scripts.settle, all, &a, min(cost, most))
	return int(n) * len(items), err
}

// permitGroup renews or releases a permit in the buckets of one slot, and returns how many of them had it.
func (s *Store) permitGroup(ctx context.Context, verb, id string, items []item) (int, error) {
	var a arguments
	for i := range items {
		if items[i].limit.params.Kind == algo.Permits {
			a.specs = append(a.specs, items[i].limit) // one a bucket, in order
			a.keys = append(a.keys, items[i].key)
		}
	}
	if len(a.keys) == 0 {
		return 0, nil
	}
	n, err := s.number(ctx, s.scripts.permit, true, &a, verb, id)
	return int(n), err
}

// number runs a script that answers a number.
func (s *Store) number(ctx context.Context, set scriptSet, all bool, a *arguments, args ...any) (int64, error) {
	reply, err := s.ask(ctx, set, all, a, args)
	if err != nil {
		return 0, err
	}
	switch v := reply.(type) {
	case int64:
		return v, nil
	case string:
		return 0, fmt.Errorf("%s", strings.TrimPrefix(v, "-"))
	}
	return 0, fmt.Errorf("the script answered %v", reply)
}

// Reset implements [tidegate.Store].
func (s *Store) Reset(ctx context.Context, charges []tidegate.Charge) error {
	bounded, cancel, err := s.begin(ctx, "reset")
	if err != nil {
		return err
	}
	defer cancel()
	s.leases.Reset(charges)
	defer s.leases.Reset(charges) // what was fetched meanwhile may be of before
	for i := range charges {
		c := algo.Named(&charges[i])
		if err := algo.CheckCharge(&c); err != nil {
			return err
		}
		keys, err := s.keys(&c)
		if err != nil {
			return err
		}
		err = s.delete(bounded, keys)
		for _, k := range keys {
			s.denied.forget(k)
		}
		if err != nil {
			return s.failure(ctx, "reset", err)
		}
	}
	return nil
}

// delete deletes keys, which in a cluster may lie in several slots.
func (s *Store) delete(ctx context.Context, keys []string) error {
	if !s.cluster || len(keys) == 1 {
		return s.client.Del(ctx, keys...).Err()
	}
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Del(ctx, k)
		}
		return nil
	})
	return err
}
