package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/storetest"
)

// oneShard holds one shard of a limit to the contract of a store: for each limit that it is asked with it takes one of
// whose shards each is just that, and sends all charges of a key to one of these, which it does not leave. What a take does
// with several shards is no business of the suite: it holds no store to a remaining that is a part's.
type oneShard struct {
	*Store
	split *atomic.Int64 // charges on limits with shards
}

// whole returns the charge on a limit of which each shard is the charge's; the same one where there is none.
func (o oneShard) whole(c tidegate.Charge) tidegate.Charge {
	l := c.Limit
	if l == nil || l.Validate() != nil {
		return c
	}
	for _, k := range []int{5, 4, 3, 2} {
		w := l.Normalize()
		if w.Algorithm == tidegate.TokenBucket {
			w.Burst *= int64(k)
			w.Per /= time.Duration(k)
		} else {
			w.Rate *= int64(k)
		}
		w.Shards = k
		if w.Validate() == nil && w.Shard(k-1) == l.Normalize() {
			c.Limit = &w
			o.split.Add(1)
			return c
		}
	}
	return c
}

// items makes the items of the charges: those of one key on one shard, also where a limit cannot have shards, and those
// of different keys on different ones.
func (o oneShard) items(charges []tidegate.Charge) ([]item, error) {
	wholes := make([]tidegate.Charge, len(charges))
	for i := range charges {
		wholes[i] = o.whole(charges[i])
	}
	items := make([]item, len(charges))
	if err := o.fill(items, wholes); err != nil {
		return nil, err
	}
	for i := range items {
		it := &items[i]
		shard := len(it.charge.Key) % 2
		if it.whole != nil {
			it.limit, it.whole = it.whole.shards[shard], nil
		} else if it.key == "" {
			continue
		}
		it.tag = shardTag(it.home, shard)
		it.key = o.bucketKey(it.charge, it.tag, shard)
	}
	return items, nil
}

func (o oneShard) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := o.ready(ctx, "take"); err != nil {
		return dst, err
	}
	items, err := o.items(charges)
	if err != nil {
		return dst, err
	}
	ds := make([]tidegate.Decision, len(items))
	if err := o.takeOnce(ctx, items, ds); err != nil {
		return dst, err
	}
	return append(dst, ds...), nil
}

func (o oneShard) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if cost < 0 {
		return o.Store.Settle(ctx, id, charges, cost)
	}
	return o.each(ctx, "settle", charges, false, func(ctx context.Context, part []item) (int, error) {
		return o.settleGroup(ctx, id, part, cost)
	})
}

func (o oneShard) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return o.each(ctx, "renew", permitsOf(charges), true, func(ctx context.Context, part []item) (int, error) {
		return o.permitGroup(ctx, "renew", id, part)
	})
}

func (o oneShard) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return o.each(ctx, "release", permitsOf(charges), false, func(ctx context.Context, part []item) (int, error) {
		return o.permitGroup(ctx, "release", id, part)
	})
}

func (o oneShard) each(ctx context.Context, op string, charges []tidegate.Charge, all bool, f func(context.Context, []item) (int, error)) error {
	if err := o.ready(ctx, op); err != nil {
		return err
	}
	named := make([]tidegate.Charge, len(charges))
	for i := range charges {
		named[i] = algo.Named(&charges[i])
	}
	items, err := o.items(named)
	if err != nil {
		return err
	}
	known, rest, err := o.eachOf(ctx, items, f)
	if err != nil {
		return o.failure(ctx, op, err)
	}
	if known == 0 || all && len(rest) > 0 {
		return tidegate.ErrUnknownID
	}
	return nil
}

func (o oneShard) Reset(ctx context.Context, charges []tidegate.Charge) error {
	split := make([]tidegate.Charge, len(charges))
	for i := range charges {
		if split[i] = charges[i]; charges[i].Limit != nil {
			split[i].Limit = &tidegate.Limit{Rate: 2, Per: time.Second, Shards: 2} // whatever the limit, so many buckets
		}
	}
	return o.Store.Reset(ctx, split)
}

// TestConformanceOfShards holds a shard to all that a bucket is held to.
func TestConformanceOfShards(t *testing.T) {
	srv := redistest.Start(t)
	var split atomic.Int64
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			if _, err := srv.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			return oneShard{injected(t, srv.URL(), Config{Now: now}, now).(*Store), &split}
		},
		Buckets: func(t *testing.T, _ tidegate.Store) int64 {
			t.Helper()
			n, err := srv.Do("DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			return n.(int64)
		},
		Rounds: 5,
	})
	t.Logf("%d charges on shards", split.Load())
	if split.Load() < 1000 && !testing.Short() {
		t.Errorf("only %d charges were on limits with shards", split.Load())
	}
}
