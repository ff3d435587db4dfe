package redisstore

import (
	"context"
	"fmt"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// ledger is what the buckets of a number of takes hold, as the several script told it.
type ledger struct {
	now    int64
	states []algo.State // of each key
	alone  []bool       // which were left alone

	windows []algo.Window // of each key, where they are windows
}

// decideSeveral decides takes of plain buckets in order, each all or nothing, by the several script, which tells what was
// in use before, so that each decision is worked out here, by the same algorithm. It returns the takes that it left alone.
func (s *Store) decideSeveral(ctx context.Context, p *plan) (left []*taking, err error) {
	takes := p.several
	keys := usesOf(takes)
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.run(ctx, s.scripts.several, s.timed(p.severalCommand(keys)))
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	b, ok := readLedger(text, keys)
	if !ok {
		return nil, fmt.Errorf("the script answered %q", text)
	}
	told := s.clock()
	for _, t := range takes {
		if t.needs(func(u *use) bool { return b.alone[u.index-1] }) {
			left = append(left, t)
			continue
		}
		b.decide(t)
	}
	for _, t := range takes {
		if it := &t.items[0]; len(t.items) == 1 && !t.decisions[0].Allowed && !b.alone[it.bucket.use.index-1] && !s.cfg.NoDeniedCache {
			st := b.states[it.bucket.use.index-1]
			v := it.limit.params.Check(&st, algo.Request{Cost: it.charge.Cost}, b.now, algo.Window{})
			s.denied.note(it, refusal{at: b.now, sent: sent, told: told, state: st}, duration(v.Retry), forgot)
		}
	}
	return left, nil
}

// usesOf returns the buckets of the takes, each once.
func usesOf(takes []*taking) []*use {
	var keys []*use
	for _, t := range takes {
		for i := range t.items {
			if u := &t.items[i].bucket.use; u.index == 0 {
				u.index = 1
				keys = append(keys, u)
			}
		}
	}
	return keys
}

// severalCommand makes the command of the several script, and sorts the keys as it has them.
func (p *plan) severalCommand(keys []*use) []any {
	takes := p.several
	limits := byLimit(keys, func(u *use) *compiled { return u.limit })
	charges, ones := 0, true
	for _, t := range takes {
		charges += len(t.items)
		for i := range t.items {
			ones = ones && t.items[i].charge.Cost == 1
		}
	}
	args := scriptCall(p.args, len(keys), scriptArgs+len(keys)+3+6*len(limits)+len(takes)+2*charges+1)
	for i, u := range keys {
		u.index = i + 1
		args = p.appendKey(args, &u.key)
	}
	args = append(appendLimits(append(args, len(limits), boolean(ones)), limits), len(takes))
	args = appendCharges(args, takes, ones)
	p.args = args
	return args
}

// appendCharges appends the takes as the several and windows scripts read them.
func appendCharges(args []any, takes []*taking, ones bool) []any {
	for _, t := range takes {
		args = append(args, len(t.items))
		for i := range t.items {
			args = append(args, t.items[i].bucket.use.index)
			if !ones {
				args = append(args, t.items[i].charge.Cost)
			}
		}
	}
	return args
}

func readLedger(text string, keys []*use) (b ledger, ok bool) {
	fields := numbers{text: text}
	b.states, b.alone = make([]algo.State, len(keys)), make([]bool, len(keys))
	if b.now, ok = fields.next(); !ok {
		return b, false
	}
	for i, u := range keys {
		if fields.skip('!') {
			u.limit.misses.Store(misses)
			b.alone[i] = true
			continue
		}
		used, ok := fields.next()
		if !ok {
			return b, false
		}
		b.states[i] = u.limit.params.Resume(used, b.now)
	}
	return b, true
}

// decide tells a take what it was told by the script, and charges the states as it did.
func (b *ledger) decide(t *taking) {
	var verdicts [maxCharges]algo.Verdict
	passes := true
	for i := range t.items {
		st, p, r, w := b.charge(&t.items[i])
		verdicts[i] = p.Check(st, r, b.now, w)
		passes = passes && verdicts[i].OK
	}
	for i := range t.items {
		it := &t.items[i]
		st, p, r, w := b.charge(it)
		if passes {
			p.Take(st, r, b.now, w)
		}
		remaining, reset := p.Describe(st, b.now, w)
		t.decisions[i] = decide(it, verdicts[i].OK, p.Capacity, remaining, verdicts[i].Retry, reset, verdicts[i].Delay)
	}
}

func (b *ledger) charge(it *item) (*algo.State, *algo.Params, algo.Request, algo.Window) {
	i := it.bucket.use.index - 1
	var w algo.Window
	if b.windows != nil {
		w = b.windows[i]
	}
	return &b.states[i], it.limit.params, algo.Request{Cost: it.charge.Cost}, w
}
