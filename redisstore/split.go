package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// groups returns the numbers of the charges that share a slot, a group each; one group where there is no cluster.
func (s *Store) groups(items []item) [][]int {
	var groups [][]int
	byTag := map[uint32]int{}
	for i := range items {
		if items[i].key == "" {
			continue
		}
		tag := items[i].tag
		if !s.cluster {
			tag = 0
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
			takeStateless(items[i:i+1], decisions[i:i+1])
			refused = refused || !decisions[i].Allowed && !items[i].charge.Shadow
		}
	}
	if !refused && slices.ContainsFunc(items, func(it item) bool { return it.charge.Cost < 0 }) {
		// A refund cannot be taken back: all are asked before any is made.
		if err := s.reEvaluate(ctx, items, groups, decisions); err != nil || refuse(items, decisions) {
			return err
		}
	}
	back := "back-" + rand.Text() // names what is given back if a later slot refuses
	// As long as it may take until that is: the others may use up the time of the call, and the giving back has its own.
	backHold := 3 * int64(s.cfg.Timeout/time.Microsecond)
	var charged [][]int
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		out := make([]tidegate.Decision, len(g))
		h := holdingOf(part)
		if h.id == "" {
			h = holding{id: back, record: true, tag: part[0].tag, hold: backHold}
		} else if h.record {
			h.hold = max(h.hold, backHold) // permits are given back by their id
		}
		if err := s.takeGroup(ctx, part, h, refused, out); err != nil {
			s.giveBack(ctx, items, charged, decisions, back)
			return err
		}
		for j, i := range g {
			decisions[i] = out[j]
		}
		if refused {
			continue
		}
		refused = refuse(part, out)
		if !refused {
			charged = append(charged, g)
		}
	}
	if refused {
		s.giveBack(ctx, items, charged, decisions, back)
		return s.reEvaluate(ctx, items, charged, decisions)
	}
	return nil
}

// refuse reports whether the decisions refuse any charge that is not in shadow.
func refuse(items []item, decisions []tidegate.Decision) bool {
	for i := range items {
		if !decisions[i].Allowed && !items[i].charge.Shadow {
			return true
		}
	}
	return false
}

func enforced(items []item, group []int) bool {
	return slices.ContainsFunc(group, func(i int) bool { return !items[i].charge.Shadow })
}

// giveBack undoes what the groups charged, as the decisions tell, even if the caller has gone.
func (s *Store) giveBack(ctx context.Context, items []item, groups [][]int, decisions []tidegate.Decision, back string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		id := holdingOf(part).id
		if id == "" {
			id = back
		}
		// What cannot be given back stays charged: the limit still holds.
		_, _ = s.settleGroup(ctx, id, part, 0)
		_, _ = s.permitGroup(ctx, "release", id, part)
		s.refundLogs(ctx, items, g, decisions)
	}
}

// refundLogs gives back what the charges of a group added to sliding logs, which have no reservations to settle.
func (s *Store) refundLogs(ctx context.Context, items []item, group []int, decisions []tidegate.Decision) {
	var refunds []item
	for _, i := range group {
		if c := items[i].charge; items[i].limit.params.Kind == algo.Log && decisions[i].Allowed && c.Cost > 0 {
			refund := algo.Named(c)
			refund.Cost = -c.Cost
			refunds = append(refunds, item{charge: &refund, limit: items[i].limit, tag: items[i].tag, key: items[i].key})
		}
	}
	if len(refunds) > 0 {
		_ = s.takeGroup(ctx, refunds, holding{}, false, make([]tidegate.Decision, len(refunds)))
	}
}

// reEvaluate answers for the charges of the groups as their buckets are now, and charges nothing.
func (s *Store) reEvaluate(ctx context.Context, items []item, groups [][]int, decisions []tidegate.Decision) error {
	for _, g := range groups {
		part := make([]item, len(g))
		for j, i := range g {
			part[j] = items[i]
		}
		out := make([]tidegate.Decision, len(g))
		if err := s.takeGroup(ctx, part, holding{}, true, out); err != nil {
			return err
		}
		for j, i := range g {
			decisions[i] = out[j]
		}
	}
	return nil
}

// takeGroup decides charges of one slot on their own.
func (s *Store) takeGroup(ctx context.Context, items []item, hold holding, dry bool, decisions []tidegate.Decision) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	t := &taking{items: items, dry: dry, hold: hold, decisions: decisions}
	err := s.takeTogether(bounded, []*taking{t})
	if err == nil {
		err = t.err
	}
	if err != nil {
		return s.failure(ctx, "take", err)
	}
	return nil
}
