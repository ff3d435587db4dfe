package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// shardModel keeps each shard as a bucket of its own in a store that knows of no shards, under a key of its own and the
// shard's limit, and says what becomes of a take in few words.
type shardModel struct {
	tidegate.Store
	at     func() uint64
	wholes map[tidegate.Limit]*compiled
}

func newShardModel(store tidegate.Store, at func() uint64) *shardModel {
	return &shardModel{Store: store, at: at, wholes: map[tidegate.Limit]*compiled{}}
}

// whole returns the limit's shards, or nil if it has none.
func (m *shardModel) whole(l *tidegate.Limit) *compiled {
	if l.Shards < 2 {
		return nil
	}
	w := m.wholes[*l]
	if w == nil {
		var err error
		if w, err = compile(l, 0); err != nil {
			panic(err)
		}
		m.wholes[*l] = w
	}
	return w
}

// moved returns the charges on the shards of their limits that the choice says.
func (m *shardModel) moved(charges []tidegate.Charge, c choice) []tidegate.Charge {
	out := append([]tidegate.Charge(nil), charges...)
	for i := range out {
		if w := m.whole(out[i].Limit); w != nil {
			out[i] = m.on(&out[i], c.shard(w))
		}
	}
	return out
}

func (m *shardModel) on(c *tidegate.Charge, shard int) tidegate.Charge {
	out := *c
	out.Limit = m.whole(c.Limit).shards[shard].source
	if shard > 0 {
		out.Key += fmt.Sprintf(" shard %d", shard)
	}
	return out
}

func (m *shardModel) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	c := choice{at: m.at()}
	some := false
	for i := range charges {
		if charges[i].ID != "" {
			c.at = drawOf(charges[i].ID)
		}
		if w := m.whole(charges[i].Limit); w != nil {
			some = true
			capacity := charges[i].Limit.Capacity()
			k := int64(charges[i].Limit.Shards)
			c.large = c.large || capacity%k > 0 && charges[i].Cost == capacity/k+1
		}
	}
	if !some {
		return m.Store.Take(ctx, charges, dst)
	}
	other := c
	other.other = true
	firsts, others := m.moved(charges, c), m.moved(charges, other)
	m.placeRefunds(charges, firsts, others)
	first, err := m.Store.Take(ctx, firsts, nil)
	if err != nil {
		return dst, err
	}
	var wait time.Duration
	for i, d := range first {
		if d.Allowed || charges[i].Shadow {
			continue
		}
		if firsts[i].Key == others[i].Key || d.RetryAfter == tidegate.Never { // cannot move, or need not
			return append(dst, first...), nil
		}
		wait = max(wait, d.RetryAfter)
	}
	if wait == 0 {
		return append(dst, first...), nil
	}
	second, err := m.Store.Take(ctx, others, nil)
	if err != nil {
		return dst, err
	}
	allowed := true
	var longer time.Duration
	for i, d := range second {
		if !d.Allowed && !charges[i].Shadow {
			allowed, longer = false, max(longer, d.RetryAfter)
		}
	}
	if allowed || longer < wait {
		first = second
	}
	return append(dst, first...), nil
}

// placeRefunds moves each refund to the one that has more in use, whatever else the take does. All are asked at once, since
// what two versions of a limit say of one bucket depends on which is asked first.
func (m *shardModel) placeRefunds(charges, firsts, others []tidegate.Charge) {
	var refunds []int
	for i := range charges {
		if charges[i].Cost < 0 && m.whole(charges[i].Limit) != nil {
			refunds = append(refunds, i)
		}
	}
	if refunds == nil {
		return
	}
	var peeks []tidegate.Charge
	for _, list := range [][]tidegate.Charge{firsts, others} {
		for _, i := range refunds {
			c := list[i]
			c.Cost, c.Shadow, c.MaxWait, c.ID = 0, false, 0, ""
			peeks = append(peeks, c)
		}
	}
	ds, err := m.Store.Take(context.Background(), peeks, nil)
	if err != nil {
		panic(err)
	}
	for j, i := range refunds {
		if used(&ds[j]) >= used(&ds[len(refunds)+j]) {
			others[i] = firsts[i]
		} else {
			firsts[i] = others[i]
		}
	}
}

func (m *shardModel) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	err := tidegate.ErrUnknownID
	for _, large := range []bool{false, true} {
		for _, other := range []bool{false, true} {
			if errors.Is(err, tidegate.ErrUnknownID) {
				err = m.Store.Settle(ctx, id, m.moved(charges, choice{drawOf(id), large, other}), cost)
			}
		}
	}
	return err
}

func (m *shardModel) Reset(ctx context.Context, charges []tidegate.Charge) error {
	for i := range charges {
		all := charges[i : i+1]
		if m.whole(charges[i].Limit) != nil {
			all = nil
			for j := range charges[i].Limit.Shards {
				all = append(all, m.on(&charges[i], j))
			}
		}
		if err := m.Store.Reset(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// TestDifferentialShards compares limits with shards, at the same choices, with as many buckets of a store in memory.
func TestDifferentialShards(t *testing.T) {
	differential(t, envInt(t, "TIDEGATE_CONFORMANCE_OPS", 20_000), true)
}
