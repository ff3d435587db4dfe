package redisstore

import (
	"context"
	"slices"
)

// How a batch is decided: takes of one plain bucket by the run script, takes of several by the several script, takes of
// windows by the windows script, and all others, with those that share a bucket with them, by the take script. Takes that share a bucket are decided in order.

const (
	// misses is how many more takes of a limit go to the take script once another has left one of its buckets alone.
	misses = 64
	// maxCharges bounds the charges of a take that the several script may decide.
	maxCharges = 16
)

// isQuick reports whether the run script, the several script or the windows script may decide the take.
func (t *taking) isQuick() bool {
	if t.hold.id != "" || len(t.items) > maxCharges {
		return false
	}
	for i := range t.items {
		it := &t.items[i]
		c, l := it.charge, it.limit
		if l.tail == "" && !l.isWindow() || l.isWindow() != t.items[0].limit.isWindow() || c.Cost <= 0 || c.Cost > l.params.Capacity || c.MaxWait > 0 || c.Shadow {
			return false
		}
		if l.misses.Load() > 0 {
			l.misses.Add(-1)
			return false
		}
		for j := range i {
			if t.items[j].key == it.key {
				return false
			}
		}
	}
	return true
}

// use is how the takes of a batch use a bucket.
type use struct {
	key     string
	limit   *compiled // of the quick ones
	cost    int64
	several bool    // not all quick ones are of this bucket alone and at one cost
	slow    bool    // it takes the take script
	run     run     // of those that are decided as one
	index   int     // in the several and windows scripts
	over    bool    // the batch has been decided
	asked   float64 // by all takes together; beyond 2^53 it is not exact, and more than there can be in any case
}

func (u *use) reset() {
	clear(u.run.takes)
	*u = use{run: run{takes: u.run.takes[:0]}}
}

// note notes that the take, whose charge it is, is in the batch.
func (u *use) note(t *taking, it *item) {
	u.key = it.key
	switch {
	case !t.quick, u.limit != nil && u.limit != it.limit:
		u.slow = true
	case len(t.items) > 1, u.limit != nil && u.cost != it.charge.Cost:
		u.several = true
	}
	u.limit, u.cost = it.limit, it.charge.Cost
}

// needs reports whether any of the take's buckets satisfies f.
func (t *taking) needs(f func(*use) bool) bool {
	for i := range t.items {
		if u := t.items[i].use; u != nil && f(u) {
			return true
		}
	}
	return false
}

func (u *use) isSlow() bool    { return u.slow }
func (u *use) isSeveral() bool { return u.several }

// plan is who decides the takes of a batch, and room for its commands. It is used again and again, by one goroutine at a time.
type plan struct {
	runs                   []*run
	several, windows, slow []*taking
	args                   []any
	totals, charges        []byte // doubles of a command
	lean                   bool   // nobody looks at the command but the one who writes it out
}

// forget drops what the last batch was, and keeps the room for the next.
func (p *plan) forget() {
	clear(p.runs[:cap(p.runs)])
	for _, takes := range [][]*taking{p.several, p.windows, p.slow} {
		clear(takes[:cap(takes)])
	}
	p.args = p.room()
	clear(p.args[:cap(p.args)])
}

func (p *plan) make(takes []*taking) {
	p.runs, p.several, p.windows, p.slow = p.runs[:0], p.several[:0], p.windows[:0], p.slow[:0]
	anySlow := false
	for _, t := range takes {
		for i := range t.items {
			if u := t.items[i].use; u != nil {
				u.note(t, &t.items[i])
				anySlow = anySlow || u.slow
			}
		}
	}
	// A take of several buckets of which one is slow makes the others slow.
	for spread := anySlow; spread; {
		spread = false
		for _, t := range takes {
			if len(t.items) < 2 || !t.needs((*use).isSlow) {
				continue
			}
			for i := range t.items {
				if u := t.items[i].use; u != nil && !u.slow {
					u.slow, spread = true, true
				}
			}
		}
	}
	for _, t := range takes {
		switch {
		case !t.quick || anySlow && t.needs((*use).isSlow):
			p.slow = append(p.slow, t)
		case t.items[0].limit.isWindow():
			p.windows = append(p.windows, t)
		case t.needs((*use).isSeveral):
			p.several = append(p.several, t)
		default:
			if r := &t.items[0].use.run; r.add(t) {
				p.runs = append(p.runs, r)
			}
		}
	}
	p.several, p.slow = each(p.several), each(p.slow)
}

// decideBatch decides takes, by scripts one after the other. An error is left with the takes that it concerns.
func (s *Store) decideBatch(ctx context.Context, takes []*taking, p *plan) {
	p.make(takes)
	p.lean = !s.cluster && len(s.cfg.Hooks) == 0
	if len(p.runs) > 0 {
		left, err := s.decideRuns(ctx, p)
		if err != nil {
			for _, r := range p.runs {
				fail(r.takes, err)
			}
		}
		p.slow = append(p.slow, each(left)...)
	}
	if len(p.several) > 0 {
		left, err := s.decideSeveral(ctx, p)
		if err != nil {
			fail(p.several, err)
		}
		p.slow = append(p.slow, left...)
	}
	if len(p.windows) > 0 {
		left, err := s.decideWindows(ctx, p)
		if err != nil {
			fail(p.windows, err)
		}
		p.slow = append(p.slow, left...)
	}
	for slow := p.slow; len(slow) > 0; {
		n := min(len(slow), maxSlow)
		if err := s.takeTogether(ctx, slow[:n]); err != nil {
			fail(slow[:n], err)
		}
		slow = slow[n:]
	}
}

func fail(takes []*taking, err error) {
	for _, t := range takes {
		t.err = err
	}
}

// limited is a number of keys of one limit.
type limited struct {
	limit *compiled
	keys  int
}

// byLimit sorts keys by their limits, as the run and several scripts are told of them, and returns the limits.
func byLimit[K any](keys []K, limit func(K) *compiled) (limits []limited) {
	at := func(l *compiled) int { return slices.IndexFunc(limits, func(x limited) bool { return x.limit == l }) }
	sorted := true
	for _, k := range keys {
		l := limit(k)
		switch i := at(l); {
		case i < 0:
			limits = append(limits, limited{l, 1})
		default:
			limits[i].keys++
			sorted = sorted && i == len(limits)-1
		}
	}
	if !sorted {
		slices.SortStableFunc(keys, func(a, b K) int { return at(limit(a)) - at(limit(b)) })
	}
	return limits
}

// appendLimits appends the limits as the run and several scripts read them.
func appendLimits(args []any, limits []limited) []any {
	for _, l := range limits {
		args = append(append(args, l.limit.args...), l.keys)
	}
	return args
}

// room returns the room of the command before, and forgets what is in it, unless a pipeline or a hook may still have that.
func (p *plan) room() []any {
	if !p.lean {
		p.args, p.totals, p.charges = nil, nil, nil
	}
	p.totals, p.charges = p.totals[:0], p.charges[:0]
	return p.args[:0]
}

// appendKey appends a key to a command: where it can be, without a copy.
func (p *plan) appendKey(args []any, key *string) []any {
	if p.lean {
		return append(args, key)
	}
	return append(args, *key)
}
