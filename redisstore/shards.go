package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Shards. A limit with shards has so many buckets instead of one, each under the limit of its shard, in slots of their own.
// A take goes to one of them, by chance; where that refuses, to one other. All charges with shards of a take move
// together and follow one number, so that those of one key, or of one Config.Slot, with equally many shards stay in one slot
// and are decided at one moment. A reservation's number comes from its ID, so that a settle finds the shards again.
//
// Shard 0 is the bucket that the limit has without shards, and keeps what was spent there when it gets some.

// choice says which shard each charge of a take goes to.
type choice struct {
	at    uint64 // where among the shards, and how far the other one is from the first
	large bool   // among those that hold one more, of the limits whose shards do not all hold the same
	other bool   // to the other one
}

// draw returns the number that the charges of a take follow.
func (s *Store) draw(items []item) uint64 {
	for i := range items {
		if id := items[i].charge.ID; id != "" {
			return drawOf(id)
		}
	}
	return s.chance()
}

// drawOf returns the number of an ID, the same in every process: FNV-1a, and the end of MurmurHash3, since the shard is
// taken from the upper bits.
func drawOf(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// among returns how many of a limit's shards there are to choose from.
func (c choice) among(whole *compiled) uint64 {
	if c.large && whole.larger > 0 {
		return uint64(whole.larger)
	}
	return uint64(len(whole.shards))
}

// shard returns the number of the shard that a charge goes to.
func (c choice) shard(whole *compiled) int {
	n := c.among(whole)
	i := c.at >> 32 * n >> 32
	if c.other && n > 1 {
		i = (i + 1 + c.at&0xffffffff*(n-1)>>32) % n
	}
	return int(i)
}

// compileShards compiles the limits of the shards, of which there are two at most.
func (l *compiled) compileShards() error {
	whole := l.source.Normalize()
	k := whole.Shards
	if k < 2 {
		return nil
	}
	l.larger = int(whole.Capacity() % int64(k))
	l.shards = make([]*compiled, k)
	for i := range l.shards {
		if i > 0 && i != l.larger {
			l.shards[i] = l.shards[i-1]
			continue
		}
		shard := whole.Shard(i)
		var err error
		if l.shards[i], err = compile(&shard, l.version); err != nil {
			return err
		}
	}
	return nil
}

// appendShard ends the name of a bucket with the number of a shard, but for shard 0, which has the bucket's own name.
// In names of buckets a % is never followed by @, so that no other bucket has this one.
func appendShard(name []byte, shard int) []byte {
	if shard == 0 {
		return name
	}
	return strconv.AppendInt(append(name, "%@"...), int64(shard), 10)
}

// sharded reports whether any charge is on a limit with shards.
func sharded(items []item) bool {
	for i := range items {
		if items[i].whole != nil {
			return true
		}
	}
	return false
}

// place gives the charges on limits with shards their buckets, but for refunds that have theirs.
func (s *Store) place(items []item, c choice) {
	for i := range items {
		it := &items[i]
		if it.whole == nil || it.key != "" && it.charge.Cost < 0 {
			continue
		}
		shard := c.shard(it.whole)
		it.limit = it.whole.shards[shard]
		it.tag = shardTag(it.home, shard)
		it.key = s.bucketKey(it.charge, it.tag, shard)
	}
}

// takeShards decides a take of which some limit has shards: where the first ones refuse, by the other ones. If these
// refuse too, the decisions are those of the shorter wait. Nothing is charged by a try that refuses.
func (s *Store) takeShards(ctx context.Context, items []item, decisions []tidegate.Decision) error {
	c := choice{at: s.draw(items), large: slices.ContainsFunc(items, needsLarger)}
	if err := s.placeRefunds(ctx, items, c); err != nil {
		return err
	}
	s.place(items, c)
	if err := s.takeOnce(ctx, items, decisions); err != nil || !c.again(items, decisions) {
		return err
	}
	var one [1]tidegate.Decision
	first := append(one[:0], decisions...)
	c.other = true
	s.place(items, c)
	err := s.takeOnce(ctx, items, decisions)
	if errors.Is(err, tidegate.ErrStore) || err == nil && refuse(items, decisions) && wait(items, first) <= wait(items, decisions) {
		copy(decisions, first) // also where only one of the two could be asked
		return nil
	}
	return err
}

// needsLarger reports whether a charge can pass in those shards alone that hold one more than the others.
func needsLarger(it item) bool {
	return it.whole != nil && it.whole.larger > 0 && it.charge.Cost == it.whole.shards[0].params.Capacity
}

// again reports whether another try may do better: all that refuse are charges that can move and could pass later.
// What is in shadow never refuses the take, and is not asked again for its own sake.
func (c choice) again(items []item, decisions []tidegate.Decision) bool {
	refused := false
	for i := range items {
		it, d := &items[i], &decisions[i]
		if d.Allowed || it.charge.Shadow {
			continue
		}
		if it.whole == nil || c.among(it.whole) < 2 || d.RetryAfter == tidegate.Never {
			return false
		}
		refused = true
	}
	return refused
}

// wait returns how long a refused take must wait: as long as the longest of what refused it.
func wait(items []item, decisions []tidegate.Decision) time.Duration {
	longest := time.Duration(0)
	for i := range decisions {
		if !decisions[i].Allowed && !items[i].charge.Shadow {
			longest = max(longest, decisions[i].RetryAfter)
		}
	}
	return longest
}

// placeRefunds gives each refund the one of its two shards in which more is in use, since what is above capacity is lost.
func (s *Store) placeRefunds(ctx context.Context, items []item, c choice) error {
	var refunds []int
	for i := range items {
		if items[i].whole != nil && items[i].charge.Cost < 0 {
			refunds = append(refunds, i)
		}
	}
	if refunds == nil {
		return nil
	}
	n := len(refunds)
	peeks := make([]item, 2*n)
	for j, i := range refunds {
		named := algo.Named(items[i].charge)
		peeks[j] = items[i]
		peeks[j].charge = &named
		peeks[n+j] = peeks[j]
	}
	s.place(peeks[:n], c)
	c.other = true
	s.place(peeks[n:], c)
	out := make([]tidegate.Decision, 2*n)
	if err := s.takeOnce(ctx, peeks, out); err != nil {
		return err
	}
	for j, i := range refunds {
		more := &peeks[j]
		if used(&out[n+j]) > used(&out[j]) {
			more = &peeks[n+j]
		}
		items[i].limit, items[i].tag, items[i].key = more.limit, more.tag, more.key
	}
	return nil
}

func used(d *tidegate.Decision) int64 { return d.Limit - d.Remaining }

// choices returns where the charges of a reservation may be, which do not tell what they cost: in the order in which it is
// worth looking. Charges without shards are in one place.
func choices(items []item, id string) []choice {
	if !sharded(items) {
		return []choice{{}}
	}
	at := drawOf(id)
	list := []choice{{at: at}, {at: at, other: true}}
	if slices.ContainsFunc(items, func(it item) bool { return it.whole != nil && it.whole.larger > 0 }) {
		list = append(list, choice{at: at, large: true}, choice{at: at, large: true, other: true})
	}
	return list
}

// keys returns the keys of the buckets of a charge: of all shards.
func (s *Store) keys(c *tidegate.Charge) ([]string, error) {
	l, err := s.limits.of(c)
	if err != nil {
		return nil, err
	}
	home := s.tag(c)
	keys := make([]string, max(1, len(l.shards)))
	for i := range keys {
		keys[i] = s.bucketKey(c, shardTag(home, i), i)
	}
	return keys, nil
}
