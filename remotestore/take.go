package remotestore

import (
	"context"
	"fmt"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Take implements [tidegate.Store]. Limits with a lease are decided here where tokens were taken ahead; all others, and
// all that are not enough, by the server.
func (s *Store) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := s.ready(ctx, "take"); err != nil {
		return dst, err
	}
	if s.cfg.NoLeases {
		return s.takeStrict(ctx, charges, dst)
	}
	return s.leases.Take(ctx, charges, dst)
}

// takeStrict is Take without leases.
func (s *Store) takeStrict(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	for i := range charges {
		if err := algo.CheckCharge(&charges[i]); err != nil {
			return dst, err
		}
	}
	if len(charges) == 0 {
		return dst, nil
	}
	if err := fits(charges); err != nil {
		return dst, err
	}
	n := len(dst)
	for range charges {
		dst = append(dst, tidegate.Decision{})
	}
	decide := s.batches.take
	if stateless(charges) {
		decide = takeStateless
	}
	if err := decide(ctx, charges, dst[n:]); err != nil {
		return dst[:n], err
	}
	return dst, nil
}

// stateless reports whether none of the charges has a bucket, so that there is nothing to ask a server.
func stateless(charges []tidegate.Charge) bool {
	for i := range charges {
		if a := charges[i].Limit.Algorithm; a != tidegate.None && a != tidegate.Unlimited {
			return false
		}
	}
	return true
}

// takeStateless decides charges of which none has a bucket.
func takeStateless(_ context.Context, charges []tidegate.Charge, decisions []tidegate.Decision) error {
	for i := range charges {
		c := &charges[i]
		if err := c.Limit.Validate(); err != nil {
			return err
		}
		if c.Limit.Algorithm == tidegate.Unlimited {
			decisions[i] = tidegate.Decision{Allowed: true, Source: tidegate.SourceUnlimited, Limit: tidegate.NoLimit, Remaining: tidegate.NoLimit, Rule: c.Rule}
			continue
		}
		decisions[i] = tidegate.Decision{Allowed: c.Cost < 0, ResetAfter: tidegate.Never, Rule: c.Rule}
		if c.Cost >= 0 {
			decisions[i].RetryAfter = tidegate.Never
		}
	}
	return nil
}

// ask makes one call of takes, and leaves with each its decisions or its error. The error is that of the call, and all
// takes' then.
func (s *Store) ask(ctx context.Context, takes []*waiter) error {
	ls := wire.Limits{NoLease: !s.cfg.NoLeases}
	lists := make([]storev1.Charges, len(takes)) // one piece of memory for all
	r := &storev1.TakeRequest{Takes: make([]*storev1.Charges, len(takes))}
	for i, w := range takes {
		lists[i].Charges = ls.Charges(nil, w.charges)
		r.Takes[i] = &lists[i]
	}
	r.Limits = ls.All
	reply, err := s.client.Take(ctx, r)
	if err != nil {
		return err
	}
	results := reply.GetResults()
	if len(results) != len(takes) {
		return fmt.Errorf("the server answered %d of %d takes", len(results), len(takes))
	}
	for i, w := range takes {
		if f := results[i].GetFailure(); f != nil {
			w.err = wire.ReadFailure("take", f)
		} else if err := wire.ReadDecisions(w.decisions, results[i].GetDecisions(), w.charges); err != nil {
			w.err = &tidegate.StoreError{Op: "take", Err: err}
		}
	}
	return nil
}
