package memstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Take implements [tidegate.Store].
func (s *Store) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := s.ready(ctx, "take"); err != nil {
		return dst, err
	}
	if len(charges) == 1 {
		d, err := s.takeOne(&charges[0])
		if err != nil {
			return dst, err
		}
		return append(dst, d), nil
	}
	for i := range charges {
		if err := algo.CheckCharge(&charges[i]); err != nil {
			return dst, err
		}
	}
	return s.takeMany(charges, dst)
}

// stateless reports whether the charge has no bucket: one that is there for the key is another limit's, and stays.
func stateless(c *tidegate.Charge) bool {
	return c.Limit.Algorithm == tidegate.None || c.Limit.Algorithm == tidegate.Unlimited
}

func request(c *tidegate.Charge) algo.Request {
	return algo.Request{Cost: c.Cost, MaxWait: int64(c.MaxWait / time.Microsecond), ID: c.ID}
}

// takeOne decides a take of one charge, the short way if there is one.
func (s *Store) takeOne(c *tidegate.Charge) (tidegate.Decision, error) {
	i := s.idOf(c)
	if c.ID == "" && c.MaxWait == 0 {
		if p, charged := s.takePlain(i, nil, c.Limit, c.Version, c.Cost); p != nil {
			o, w := p.TellPlain(charged)
			return o.Decision(w, c.Rule), nil
		}
	}
	return s.takeAny(c, i)
}

// takeAny is takeMany for one charge, of the bucket i, without a copy of anything but the state's numbers.
func (s *Store) takeAny(c *tidegate.Charge, i id) (tidegate.Decision, error) {
	if err := algo.CheckCharge(c); err != nil {
		return tidegate.Decision{}, err
	}
	if stateless(c) {
		pol, err := s.policies.of(c)
		if err != nil {
			return tidegate.Decision{}, err
		}
		remaining, reset := pol.params.Describe(nil, 0, algo.Window{})
		return decision(c, pol.params, pol.params.Check(nil, request(c), 0, algo.Window{}), remaining, reset), nil
	}
	sh := s.shard(i)
	sh.mu.Lock()
	now := s.now()
	slot := sh.find(i)
	var st algo.State
	var current *policy
	if slot >= 0 {
		current, st = sh.policy(slot), sh.state(slot)
	}
	pol, converted, err := s.policies.resolve(current, &st, c, now, s)
	if err != nil {
		sh.mu.Unlock()
		return tidegate.Decision{}, err
	}
	p := pol.params
	now = s.clockOf(p, now)
	w := p.Window(now)
	keep := p.Load(&st, now, w) || converted
	v := p.Take(&st, request(c), now, w)
	remaining, reset := p.Describe(&st, now, w)
	added := false
	if c.Cost != 0 && (v.OK || keep) {
		added = s.put(sh, i, slot, pol, &st)
	}
	sh.mu.Unlock()
	if added {
		s.makeRoom(func(other id) bool { return other == i })
	}
	if (v.OK || c.Shadow) && c.ID != "" && c.Cost > 0 && c.Limit.Algorithm != tidegate.Concurrency {
		s.reservations.add(s, c, now, v.Delay, []held{part(i, p, c, v)})
	}
	return decision(c, p, v, remaining, reset), nil
}

// put keeps the state of the bucket in the slot, -1 for a new one, or forgets the bucket if there is nothing to remember.
// It reports whether a bucket too many was added.
func (s *Store) put(sh *shard, i id, slot int, pol *policy, st *algo.State) (added bool) {
	switch {
	case st.Used():
		sh.put(i, slot, pol, st)
		return slot < 0 && s.keys.Add(1) > s.maxKeys
	case slot >= 0:
		sh.remove(slot)
		s.keys.Add(-1)
	}
	return false
}

func decision(c *tidegate.Charge, p *algo.Params, v algo.Verdict, remaining, reset int64) tidegate.Decision {
	d := tidegate.Decision{
		Allowed:    v.OK,
		Limit:      p.Capacity,
		Remaining:  remaining,
		RetryAfter: duration(v.Retry),
		ResetAfter: duration(reset),
		Delay:      duration(v.Delay),
		Rule:       c.Rule,
	}
	if p.Kind == algo.Unlimited {
		d.Source = tidegate.SourceUnlimited
	}
	return d
}

// duration turns µs into a Duration.
func duration(us int64) time.Duration {
	if us > int64(tidegate.Never/time.Microsecond) {
		return tidegate.Never
	}
	return time.Duration(us) * time.Microsecond
}

// work is a bucket that a take of several charges works on.
type work struct {
	id     id
	policy *policy
	base   algo.State // brought to the present, nothing charged
	state  algo.State // the same with the charges
	window algo.Window
	now    int64
	spent  int64 // what the charges so far cost
	keep   bool  // base must be kept even if the take is refused
	write  bool  // a charge of it does not just peek
}

// scratch is what takeMany needs, reused so that a take allocates nothing.
type scratch struct {
	works  []work
	of     []int // the work of each charge
	shards []int
	result []algo.Verdict
	left   [][2]int64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (x *scratch) release() {
	clear(x.works)
	x.works, x.of, x.shards, x.result, x.left = x.works[:0], x.of[:0], x.shards[:0], x.result[:0], x.left[:0]
	scratches.Put(x)
}

func (s *Store) takeMany(charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	x := scratches.Get().(*scratch)
	defer x.release()
	for i := range charges {
		x.shards = append(x.shards, s.shardOf(s.idOf(&charges[i])))
	}
	slices.Sort(x.shards) // one order for all takes, so that no two wait for each other
	x.shards = slices.Compact(x.shards)
	for _, n := range x.shards {
		s.shards[n].mu.Lock()
	}
	over, err := s.takeLocked(x, charges)
	for _, n := range x.shards {
		s.shards[n].mu.Unlock()
	}
	if err != nil {
		return dst, err
	}
	for range over {
		s.makeRoom(func(other id) bool {
			return slices.ContainsFunc(x.works, func(w work) bool { return w.id == other })
		})
	}
	for i := range charges {
		p := x.works[x.of[i]].policy.params
		dst = append(dst, decision(&charges[i], p, x.result[i], x.left[i][0], x.left[i][1]))
	}
	return dst, nil
}

// takeLocked decides the charges and keeps what they changed. It returns how many buckets there are too many.
func (s *Store) takeLocked(x *scratch, charges []tidegate.Charge) (over int, err error) {
	now := s.now()
	for i := range charges {
		if err := s.load(x, &charges[i], now); err != nil {
			return 0, err
		}
	}
	refused := false
	for i := range charges {
		x.result, x.left = append(x.result, algo.Verdict{}), append(x.left, [2]int64{})
		if !charges[i].Shadow {
			x.try(i, &charges[i])
			refused = refused || !x.result[i].OK
		}
	}
	for i := range charges {
		w := &x.works[x.of[i]]
		p := w.policy.params
		switch {
		case refused:
			if charges[i].Shadow {
				x.result[i] = p.Check(&w.base, request(&charges[i]), w.now, w.window)
			}
			x.left[i][0], x.left[i][1] = p.Describe(&w.base, w.now, w.window)
		case charges[i].Shadow:
			x.try(i, &charges[i])
		}
	}
	for i := range x.works {
		w := &x.works[i]
		st := &w.state
		if refused {
			st = &w.base
		}
		if !w.write || refused && !w.keep {
			continue
		}
		sh := s.shard(w.id)
		if s.put(sh, w.id, sh.find(w.id), w.policy, st) {
			over++
		}
	}
	if !refused {
		s.hold(x, charges)
	}
	return over, nil
}

// load finds the bucket of the next charge and brings it to the present, unless an earlier charge did.
func (s *Store) load(x *scratch, c *tidegate.Charge, now int64) error {
	if stateless(c) {
		pol, err := s.policies.of(c)
		x.of = append(x.of, len(x.works))
		x.works = append(x.works, work{policy: pol})
		return err
	}
	i := s.idOf(c)
	n := slices.IndexFunc(x.works, func(w work) bool { return w.id == i })
	if n < 0 {
		w := work{id: i}
		var current *policy
		sh := s.shard(i)
		if slot := sh.find(i); slot >= 0 {
			current, w.base = sh.policy(slot), sh.state(slot)
			w.base = w.base.Clone()
		}
		pol, converted, err := s.policies.resolve(current, &w.base, c, now, s)
		if err != nil {
			return err
		}
		w.policy = pol
		w.now = s.clockOf(pol.params, now)
		w.window = pol.params.Window(w.now)
		w.keep = pol.params.Load(&w.base, w.now, w.window) || converted
		w.state = w.base.Clone()
		n = len(x.works)
		x.works = append(x.works, w)
	}
	x.works[n].write = x.works[n].write || c.Cost != 0
	x.of = append(x.of, n)
	return nil
}

// try charges the charge i to the working state if there is room. Where earlier charges took the room away, it can pass
// when all of them can.
func (x *scratch) try(i int, c *tidegate.Charge) {
	w := &x.works[x.of[i]]
	p := w.policy.params
	v := p.Take(&w.state, request(c), w.now, w.window)
	if !v.OK && w.spent > 0 && !c.Shadow {
		r := request(c)
		r.Cost = w.spent + max(1, r.Cost)
		if all := p.Check(&w.base, r, w.now, w.window); !all.OK {
			v.Retry = all.Retry
		}
	}
	if v.OK && c.Cost > 0 {
		w.spent += c.Cost
	}
	x.result[i] = v
	x.left[i][0], x.left[i][1] = p.Describe(&w.state, w.now, w.window)
}

// hold remembers what a take charged, if it is to be settled.
func (s *Store) hold(x *scratch, charges []tidegate.Charge) {
	first := slices.IndexFunc(charges, func(c tidegate.Charge) bool {
		return c.ID != "" && c.Cost > 0 && !stateless(&c) && c.Limit.Algorithm != tidegate.Concurrency
	})
	if first < 0 {
		return
	}
	var parts []held
	delay := int64(0)
	for i := range charges {
		w := &x.works[x.of[i]]
		h := part(s.idOf(&charges[i]), w.policy.params, &charges[i], x.result[i])
		if h.cost > 0 {
			delay = max(delay, x.result[i].Delay)
		}
		parts = append(parts, h)
	}
	s.reservations.add(s, &charges[first], s.now(), delay, parts) // one of a sliding log, say, has no ID
}

// part is what a charge comes to in a reservation: nothing, where it found no room, has no bucket, or is of permits.
func part(i id, p *algo.Params, c *tidegate.Charge, v algo.Verdict) held {
	h := held{id: i, kind: p.Kind, window: v.Window, limit: p.Capacity}
	if v.OK && c.Cost > 0 && p.Kind != algo.Permits && !stateless(c) {
		h.cost = c.Cost
	}
	return h
}
