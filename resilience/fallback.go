package resilience

import (
	"context"
	"math/bits"
	"strconv"
	"sync"
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

// localCharge names the local bucket of a charge, under a limit.
func (s *Store) localCharge(c *tidegate.Charge, k kind, l *tidegate.Limit) tidegate.Charge {
	name := make([]byte, 0, len(c.Rule)+12)
	name = append(name, byte(k))
	if k != kindPermits {
		name = strconv.AppendUint(name, uint64(s.outage.Load()), 10)
	}
	name = append(append(name, '/'), c.Rule...)
	return tidegate.Charge{Rule: string(name), Key: c.Key, Limit: l, Version: c.Version}
}

// alone is a take that is decided without the shared store.
type alone struct {
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
	a := alone{local: make([]tidegate.Charge, 0, len(charges)+1), places: make([]place, len(charges))}
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
	named := s.localCharge(c, k, l)
	if counted(c) {
		s.begin(ctx, c, named)
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
func (s *Store) begin(ctx context.Context, c *tidegate.Charge, local tidegate.Charge) {
	outage := s.outage.Load()
	sh := s.memories.shard(c.Rule, c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := sh.keys[bucket{c.Rule, c.Key}]
	if m == nil || m.begun == outage {
		return
	}
	m.begun = outage
	hi, lo := bits.Mul64(uint64(m.remaining(s.now())), uint64(local.Limit.Capacity()))
	start, _ := bits.Div64(hi, lo, uint64(max(1, m.limit.Capacity())))
	ask := []tidegate.Charge{local}
	ds, err := s.local.Take(ctx, ask, nil)
	if err != nil || ds[0].Remaining <= int64(start) {
		return
	}
	ask = append(ask, s.localCharge(c, kindCharged, local.Limit))
	ask[0].Cost = ds[0].Remaining - int64(start)
	ask[1].Cost = ask[0].Cost
	_, _ = s.local.Take(ctx, ask, nil) // what fails to be charged only starts fuller
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
			s.owe(c, &a.local[at])
		}
		if c.Limit.Algorithm == tidegate.Concurrency {
			s.permits.add(c, s.now(), true)
			a.id = "" // the bucket itself remembers it
		}
	}
	if passes && a.id != "" && delay+a.hold > 0 {
		s.made.add(a.id, a.local, s.now()+int64(delay)+int64(a.hold))
	}
}

// owe notes that the store is owed what is in use of a local bucket and was not charged.
func (s *Store) owe(c, local *tidegate.Charge) {
	sh := s.memories.shard(c.Rule, c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := s.memories.of(sh, c, s.now())
	for i := range m.debts {
		if d := &m.debts[i]; d.local.Rule == local.Rule {
			d.local.Limit, d.charged.Limit = local.Limit, local.Limit
			return
		}
	}
	if len(m.debts) == 0 {
		s.memories.owing.Add(1)
	}
	d := debt{charge: algo.Named(c), local: algo.Named(local), charged: s.localCharge(c, kindCharged, local.Limit)}
	m.debts = append(m.debts, d)
}

// takeStaged lets the shared store decide what this replica's share of the limits lets pass, for others may still think
// that the store is away, and keep to theirs.
func (s *Store) takeStaged(ctx context.Context, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	var local []tidegate.Charge
	var of []int
	for i := range charges {
		c := &charges[i]
		if c.Cost <= 0 || c.Limit == nil || c.OnFailure.Action != tidegate.FailLocal || !counted(c) || algo.CheckCharge(c) != nil {
			continue
		}
		l, err := s.limits.of(c.Limit, s.share(c.Rule, c.OnFailure))
		if err != nil {
			return dst, err
		}
		named := s.localCharge(c, kindBucket, l)
		s.begin(ctx, c, named)
		named.Cost, named.MaxWait, named.Shadow = c.Cost, c.MaxWait, c.Shadow
		local, of = append(local, named), append(of, i)
	}
	if len(local) == 0 {
		return s.takeShared(ctx, begun, charges, dst)
	}
	ds, err := s.local.Take(ctx, local, nil)
	if err != nil {
		return dst, err
	}
	if !allowed(local, ds) {
		return s.beyondShare(charges, of, ds, dst), nil
	}
	n := len(dst)
	dst, err = s.takeShared(ctx, begun, charges, dst)
	if err != nil || !allowed(charges, dst[n:]) || dst[n].Source == tidegate.SourceFallback {
		back := local[:0]
		for i := range local {
			if ds[i].Allowed {
				c := local[i]
				c.Cost, c.MaxWait = -c.Cost, 0
				back = append(back, c)
			}
		}
		_, _ = s.local.Take(context.WithoutCancel(ctx), back, nil) // what is not given back errs toward the limit
		return dst, err
	}
	for i := range local {
		local[i].Rule = s.localCharge(&charges[of[i]], kindCharged, local[i].Limit).Rule
		local[i].Shadow = true
	}
	_, _ = s.local.Take(context.WithoutCancel(ctx), local, nil)
	return dst, nil
}

// beyondShare is the refusal of a take that a share does not let pass, so that the store was not asked.
func (s *Store) beyondShare(charges []tidegate.Charge, of []int, ds, dst []tidegate.Decision) []tidegate.Decision {
	n := len(dst)
	for i := range charges {
		d := tidegate.Decision{Allowed: true, Source: tidegate.SourceFallback, Rule: charges[i].Rule}
		d.Limit = charges[i].Limit.Capacity()
		d.Remaining = d.Limit
		dst = append(dst, d)
	}
	for j, i := range of {
		d := ds[j]
		d.Rule, d.Source = charges[i].Rule, tidegate.SourceFallback
		dst[n+i] = d
	}
	return dst
}

// reservations remembers which local buckets a reservation that was made alone charged.
type reservations struct {
	mu   sync.Mutex
	byID map[string]reservation
}

type reservation struct {
	charges []tidegate.Charge
	until   int64 // ns
}

// maxReservations bounds them; one that is forgotten stays charged.
const maxReservations = 1 << 16

func (r *reservations) add(id string, charges []tidegate.Charge, until int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]reservation{}
	}
	if len(r.byID) >= maxReservations {
		for other := range r.byID {
			delete(r.byID, other)
			break
		}
	}
	named := make([]tidegate.Charge, len(charges))
	for i := range charges {
		named[i] = algo.Named(&charges[i])
	}
	r.byID[id] = reservation{named, until}
}

func (r *reservations) find(id string, now int64) ([]tidegate.Charge, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res, ok := r.byID[id]
	return res.charges, ok && now < res.until
}

func (r *reservations) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

func (r *reservations) sweep(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, res := range r.byID {
		if now >= res.until {
			delete(r.byID, id)
		}
	}
}
