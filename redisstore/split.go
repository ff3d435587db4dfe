package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate"
)

// groups returns the numbers of the charges that share a slot, a group each; one group where there is no cluster.
func (s *Store) groups(items []item) [][]int {
	var groups [][]int
	byTag := map[string]int{}
	for i := range items {
		if items[i].key == "" {
			continue
		}
		tag := items[i].tag
		if !s.cluster {
			tag = ""
		}
		n, ok := byTag[tag]
		if !ok {
			n = len(groups)
			byTag[tag] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

// takeSplit decides charges whose buckets lie in different slots of a cluster, one slot after the other: the narrowest
// key first, since it is the most likely to refuse; where one refuses, the others are only evaluated, and those that had
// charged give back. So nothing is lost, but between the first slot's answer and the giving back another take can be
// refused for want of what will be given back: it is not atomic.
func (s *Store) takeSplit(ctx context.Context, items []item, groups [][]int, decisions []tidegate.Decision) error {
	slices.SortStableFunc(groups, func(a, b []int) int {
		if x, y := enforced(items, a), enforced(items, b); x != y {
			return boolean(y) - boolean(x) // those in shadow alone, last
		}
		return len(items[b[0]].charge.Key) - len(items[a[0]].charge.Key)
	})
	refused := false
	for i := range items {
		if items[i].key == "" {
			if err := s.takeStateless(items[i:i+1], decisions[i:i+1]); err != nil {
				return err
			}
			refused = refused || !decisions[i].Allowed && !items[i].charge.Shadow
		}
	}
	back := "back-" + rand.Text() // names what is given back if a later slot refuses
	var charged [][]int
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		out := make([]tidegate.Decision, len(g))
		h := holdingOf(part, nil)
		if h.id == "" {
			h = holding{id: back, tag: part[0].tag, hold: int64(s.cfg.Timeout / time.Microsecond)}
		} else {
			h.hold = max(h.hold, int64(s.cfg.Timeout/time.Microsecond))
		}
		if err := s.takeGroup(ctx, part, &h, refused, out); err != nil {
			s.giveBack(ctx, items, charged, back)
			return err
		}
		for j, i := range g {
			decisions[i] = out[j]
		}
		if refused {
			continue
		}
		refused = slices.ContainsFunc(g, func(i int) bool { return !decisions[i].Allowed && !items[i].charge.Shadow })
		if !refused {
			charged = append(charged, g)
		}
	}
	if refused {
		s.giveBack(ctx, items, charged, back)
		return s.reEvaluate(ctx, items, charged, decisions)
	}
	return nil
}

func enforced(items []item, group []int) bool {
	return slices.ContainsFunc(group, func(i int) bool { return !items[i].charge.Shadow })
}

// giveBack undoes what the groups charged, even if the caller has gone.
func (s *Store) giveBack(ctx context.Context, items []item, groups [][]int, back string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		id := holdingOf(part, nil).id
		if id == "" {
			id = back
		}
		// What cannot be given back stays charged: the limit still holds.
		_, _ = s.settleGroup(ctx, id, part, 0)
		_, _ = s.permitGroup(ctx, "release", id, part)
	}
}

// reEvaluate describes the buckets that gave back as they are now.
func (s *Store) reEvaluate(ctx context.Context, items []item, groups [][]int, decisions []tidegate.Decision) error {
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		out := make([]tidegate.Decision, len(g))
		if err := s.takeGroup(ctx, part, &holding{}, true, out); err != nil {
			return err
		}
		for j, i := range g {
			decisions[i] = out[j]
		}
	}
	return nil
}
