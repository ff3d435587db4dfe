package resilience

import (
	"context"
	"math/bits"
	"strconv"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// kind is what a local bucket is for. Its name has the number of the outage in it, so that each begins with new ones.
type kind byte

const (
	kindBucket  kind = 'b' // decides: the share of a limit
	kindCharged kind = 'c' // the part of what is in use there that the store was charged with
	kindPermits kind = 'p' // what this process holds, in an outage or not
)

// denyRetry is when to try again after a refusal by [tidegate.FailDeny].
const denyRetry = time.Second

var nothing = tidegate.Limit{Algorithm: tidegate.None}

// localCharge names the local bucket of a charge in an outage, under a limit.
func localCharge(c *tidegate.Charge, k kind, l *tidegate.Limit, outage uint32) tidegate.Charge {
	name := make([]byte, 0, len(c.Rule)+12)
	name = append(name, byte(k))
	if k != kindPermits {
		name = strconv.AppendUint(name, uint64(outage), 10)
	}
	name = append(append(name, '/'), c.Rule...)
	return tidegate.Charge{Rule: string(name), Key: c.Key, Limit: l, Version: c.Version}
}

// alone is a take that is decided without the shared store.
type alone struct {
	outage  uint32 // one number throughout, whatever begins meanwhile
	local   []tidegate.Charge
	places  []place
	refuses bool // a policy refuses it
	id      string
	hold    time.Duration
}

// place is where a charge stands among the local ones, and whether that decides it; -1 for nowhere.
type place struct {
	at      int
	decides bool
}

// fallback decides a take without the shared store.
func (s *Store) fallback(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	s.warnOnce()
	a := alone{outage: s.outage.Load(), local: make([]tidegate.Charge, 0, len(charges)+1), places: make([]place, len(charges))}
	for i := range charges {
		if err := s.add(ctx, &a, &charges[i], i); err != nil {
			return dst, err
		}
	}
	if a.refuses { // all are evaluated, none is charged
		a.local = append(a.local, tidegate.Charge{Rule: "refused", Limit: &nothing, Cost: 1})
	}
	var ds []tidegate.Decision
	if len(a.local) > 0 {
		var err error
		if ds, err = s.local.Take(ctx, a.local, nil); err != nil {
			return dst, err
		}
	}
	n := len(dst)
	for i := range charges {
		c := &charges[i]
		d := policyDecision(c)
		if p := a.places[i]; p.decides {
			d = ds[p.at]
			d.Rule = c.Rule
			if d.Source != tidegate.SourceUnlimited {
				d.Source = tidegate.SourceFallback
			}
		}
		dst = append(dst, d)
	}
	s.account(&a, charges, dst[n:], ds)
	return dst, nil
}

// add adds what decides a charge, and what counts it.
func (s *Store) add(ctx context.Context, a *alone, c *tidegate.Charge, i int) error {
	a.places[i].at = -1
	if err := algo.CheckCharge(c); err != nil {
		return err
	}
	if c.ID != "" && c.Cost > 0 {
		a.id, a.hold = c.ID, c.Hold
	}
	stateless := c.Limit.Algorithm == tidegate.None || c.Limit.Algorithm == tidegate.Unlimited
	decides := stateless || c.OnFailure.Action == tidegate.FailLocal
	l, err := s.limits.of(c.Limit, s.localShare(c))
	switch {
	case err != nil:
		return err
	case decides:
	case c.OnFailure.Action == tidegate.FailDeny:
		a.refuses = a.refuses || !c.Shadow && c.Cost >= 0
		return nil
	case !counted(c) || c.Cost == 0:
		return nil
	}
	k := kindBucket
	if c.Limit.Algorithm == tidegate.Concurrency {
		k = kindPermits
	}
	named := localCharge(c, k, l, a.outage)
	if counted(c) {
		s.begin(ctx, c, named, a.outage)
	}
	local := *c
	local.Rule, local.Limit, local.Shadow = named.Rule, l, c.Shadow || !decides
	a.places[i] = place{len(a.local), decides}
	a.local = append(a.local, local)
	return nil
}

// localShare is the part of the charge's limit that its local bucket keeps to: all, where that only counts.
func (s *Store) localShare(c *tidegate.Charge) int64 {
	if c.OnFailure.Action != tidegate.FailLocal || c.Limit.Algorithm == tidegate.None || c.Limit.Algorithm == tidegate.Unlimited {
		return whole
	}
	return s.share(c.Rule, c.OnFailure)
}

// policyDecision is what a policy says of a charge that no bucket decides.
func policyDecision(c *tidegate.Charge) tidegate.Decision {
	d := tidegate.Decision{Allowed: true, Source: tidegate.SourceFallback, Rule: c.Rule}
	if c.OnFailure.Action == tidegate.FailDeny && c.Cost >= 0 {
		d.Allowed, d.RetryAfter = false, denyRetry
		return d
	}
	d.Limit = c.Limit.Capacity()
	d.Remaining = d.Limit
	return d
}

// begin makes the fallback bucket of a key hold what remained when the store last told, times the share, if it has not
// been begun in this outage. What the store had in use then, it has itself.
func (s *Store) begin(ctx context.Context, c *tidegate.Charge, local tidegate.Charge, outage uint32) {
	sh, m := s.memories.lock(c.Rule, c.Key)
	defer sh.mu.Unlock()
	if m == nil || m.begun == outage {
		return
	}
	m.begun = outage
	remained := max(0, m.remaining(s.now())-s.unpaid(ctx, m, local.Rule))
	hi, lo := bits.Mul64(uint64(remained), uint64(local.Limit.Capacity()))
	start, _ := bits.Div64(hi, lo, uint64(max(1, m.limit.Capacity())))
	ask := []tidegate.Charge{local}
	ds, err := s.local.Take(ctx, ask, nil)
	if err != nil || ds[0].Remaining <= int64(start) {
		return
	}
	ask = append(ask, localCharge(c, kindCharged, local.Limit, outage))
	ask[0].Cost = ds[0].Remaining - int64(start)
	ask[1].Cost = ask[0].Cost
	_, _ = s.local.Take(ctx, ask, nil) // what fails to be charged only starts fuller
}

// unpaid returns what a key still owes for outages before that of a local bucket, and the store therefore did not tell of.
func (s *Store) unpaid(ctx context.Context, m *memory, local string) (owed int64) {
	for i := range m.debts {
		d := &m.debts[i]
		if d.local.Rule == local {
			continue
		}
		owed += d.left
		if ds, err := s.local.Take(ctx, []tidegate.Charge{d.charged, d.local}, nil); err == nil { // a peek
			owed += max(0, ds[0].Remaining-ds[1].Remaining)
		}
	}
	return owed
}

// account remembers what a take that was decided alone charged.
func (s *Store) account(a *alone, charges []tidegate.Charge, decisions, local []tidegate.Decision) {
	passes := allowed(charges, decisions)
	var delay time.Duration
	for i := range charges {
		c, d := &charges[i], &decisions[i]
		if s.cfg.Hooks.Fallback != nil {
			s.cfg.Hooks.Fallback(c.Rule, d.Allowed)
		}
		if !passes || !d.Allowed || c.Cost <= 0 {
			continue
		}
		s.admitted(c)
		delay = max(delay, d.Delay)
		if at := a.places[i].at; at >= 0 && local[at].Allowed && counted(c) {
			s.owe(c, &a.local[at], a.outage)
		}
		if c.Limit.Algorithm == tidegate.Concurrency {
			s.permits.add(c, s.now(), true)
			a.id = "" // the bucket itself remembers it
		}
	}
	if passes && a.id != "" && delay+a.hold > 0 {
		s.made.add(a.id, a.reservation(charges, s.now()+int64(delay)+int64(a.hold)))
	}
}

// owe notes that the store is owed what is in use of a local bucket and was not charged.
func (s *Store) owe(c, local *tidegate.Charge, outage uint32) {
	sh, m := s.memories.lock(c.Rule, c.Key)
	defer sh.mu.Unlock()
	if m == nil {
		m = s.memories.add(sh, c, s.now())
	}
	for i := range m.debts {
		if d := &m.debts[i]; d.local.Rule == local.Rule {
			d.local.Limit, d.charged.Limit = local.Limit, local.Limit
			return
		}
	}
	if !m.owing {
		m.owing = true
		s.memories.owing.Add(1)
	}
	d := debt{charge: algo.Named(c), local: algo.Named(local)}
	d.charge.Rule, d.charge.Key, d.local.Key = m.rule, m.key, m.key // the caller's may be parts of something large
	d.charged = localCharge(&d.charge, kindCharged, local.Limit, outage)
	m.debts = append(m.debts, d)
}
