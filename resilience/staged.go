package resilience

import (
	"context"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// staged is what a take in a staged return charges to this replica's share, before the store is asked.
type staged struct {
	outage  uint32
	local   []tidegate.Charge
	of      []int // which charge each is of
	permits []tidegate.Charge
	id      string // of the permits
}

// takeStaged lets the shared store decide what this replica's share of the limits lets pass, for others may still think
// that the store is away, and keep to theirs.
func (s *Store) takeStaged(ctx context.Context, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	st, err := s.stageTake(ctx, charges)
	if err != nil {
		return dst, err
	}
	if len(st.local) == 0 {
		return s.takeShared(ctx, begun, charges, dst)
	}
	mine, err := s.local.Take(ctx, st.local, nil)
	if err != nil {
		return dst, err
	}
	if !allowed(st.local, mine) {
		return beyondShare(charges, st.of, mine, dst), nil
	}
	ds, v, err := s.tryShared(ctx, begun, charges, dst)
	if v != answered || !allowed(charges, ds[len(dst):]) {
		s.giveBack(ctx, &st, mine)
		if v == failed {
			return s.fallback(ctx, charges, dst)
		}
		return ds, err
	}
	s.chargeStaged(ctx, &st, charges, ds[len(dst):])
	return ds, nil
}

// stageTake names the local buckets of a take.
func (s *Store) stageTake(ctx context.Context, charges []tidegate.Charge) (st staged, err error) {
	st.outage = s.outage.Load()
	for i := range charges {
		c := &charges[i]
		if c.Cost <= 0 || c.Limit == nil || c.OnFailure.Action != tidegate.FailLocal || algo.CheckCharge(c) != nil {
			continue
		}
		permits := c.Limit.Algorithm == tidegate.Concurrency
		if !permits && !counted(c) {
			continue
		}
		l, err := s.limits.of(c.Limit, s.share(c.Rule, c.OnFailure))
		if err != nil {
			return st, err
		}
		var local tidegate.Charge
		if permits {
			local = localCharge(c, kindPermits, l, st.outage)
			st.permits, st.id = append(st.permits, local), c.ID
			local.ID = c.ID
		} else {
			local = localCharge(c, kindBucket, l, st.outage)
			s.begin(ctx, c, local, st.outage)
		}
		local.Cost, local.MaxWait, local.Shadow = c.Cost, c.MaxWait, c.Shadow
		st.local, st.of = append(st.local, local), append(st.of, i)
	}
	return st, nil
}

// giveBack gives back what a take charged to the share, since the store did not let it pass. What fails errs toward the limit.
func (s *Store) giveBack(ctx context.Context, st *staged, mine []tidegate.Decision) {
	ctx = context.WithoutCancel(ctx)
	var back []tidegate.Charge
	for i := range st.local {
		if c := st.local[i]; mine[i].Allowed && c.ID == "" {
			c.Cost, c.MaxWait = -c.Cost, 0
			back = append(back, c)
		}
	}
	if len(back) > 0 {
		_, _ = s.local.Take(ctx, back, nil)
	}
	if len(st.permits) > 0 {
		_ = s.local.Release(ctx, st.id, st.permits)
	}
}

// chargeStaged notes that the store was charged with what the share was, so that it is not owed.
func (s *Store) chargeStaged(ctx context.Context, st *staged, charges []tidegate.Charge, decisions []tidegate.Decision) {
	var paid []tidegate.Charge
	for j, i := range st.of {
		c := &charges[i]
		if st.local[j].ID != "" {
			if decisions[i].Allowed {
				s.permits.add(c, s.now(), false)
			}
			continue
		}
		local := localCharge(c, kindCharged, st.local[j].Limit, st.outage)
		local.Cost, local.MaxWait, local.Shadow = c.Cost, c.MaxWait, true
		paid = append(paid, local)
	}
	if len(paid) > 0 {
		_, _ = s.local.Take(context.WithoutCancel(ctx), paid, nil)
	}
}

// beyondShare is the refusal of a take that a share does not let pass, so that the store was not asked.
func beyondShare(charges []tidegate.Charge, of []int, mine, dst []tidegate.Decision) []tidegate.Decision {
	n := len(dst)
	for i := range charges {
		d := tidegate.Decision{Allowed: true, Source: tidegate.SourceFallback, Rule: charges[i].Rule}
		d.Limit = charges[i].Limit.Capacity()
		d.Remaining = d.Limit
		dst = append(dst, d)
	}
	for j, i := range of {
		d := mine[j]
		d.Rule, d.Source = charges[i].Rule, tidegate.SourceFallback
		dst[n+i] = d
	}
	return dst
}
