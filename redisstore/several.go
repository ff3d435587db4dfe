package redisstore

import (
	"context"

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
	b, ok := readLedger(reply, keys)
	if !ok {
		return nil, badReply(reply)
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
		if it := &t.items[0]; len(t.items) == 1 && !t.decisions[0].Allowed && !b.alone[it.use.index-1] && !s.cfg.NoDeniedCache {
			st := b.states[it.use.index-1]
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
			if u := t.items[i].use; u.index == 0 {
				u.index = 1
				keys = append(keys, u)
			}
		}
	}
	return keys
}

// severalCommand makes the command of the several script, and sorts the keys as it has them.
func (p *plan) severalCommand(keys []*use) []any { return p.ledgerCommand(keys, p.several) }

// ledgerCommand makes the command of a script that decides takes of several buckets.
func (p *plan) ledgerCommand(keys []*use, takes []*taking) []any {
	limits := byLimit(keys, func(u *use) *compiled { return u.limit })
	of := 1 // arguments of a limit
	if len(limits) > 0 {
		of += len(limits[0].limit.args)
	}
	args := scriptCall(p.room(), len(keys), scriptArgs+len(keys)+1+of*len(limits)+2+1)
	for i, u := range keys {
		u.index, u.asked = i+1, 0
		args = p.appendKey(args, &u.key)
	}
	args = appendLimits(append(args, len(limits)), limits)
	for _, t := range takes {
		p.charges = appendDouble(p.charges, float64(len(t.items)))
		for i := range t.items {
			u := t.items[i].use
			u.asked += float64(t.items[i].charge.Cost)
			p.charges = appendDouble(appendDouble(p.charges, float64(u.index)), float64(t.items[i].charge.Cost))
		}
	}
	for _, u := range keys {
		p.totals = appendDouble(p.totals, u.asked)
	}
	args = append(args, p.totals, p.charges)
	p.args = args
	return args
}

func readLedger(reply any, keys []*use) (b ledger, ok bool) {
	fields := readNumbers(reply)
	b.states, b.alone = make([]algo.State, len(keys)), make([]bool, len(keys))
	if b.now, ok = fields.next(); !ok {
		return b, false
	}
	for i, u := range keys {
		switch used, ok := fields.next(); {
		case ok:
			b.states[i] = u.limit.params.Resume(used, b.now)
		case fields.alone:
			u.limit.misses.Store(misses)
			b.alone[i] = true
		default:
			return b, false
		}
	}
	return b, fields.atEnd()
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
	i := it.use.index - 1
	var w algo.Window
	if b.windows != nil {
		w = b.windows[i]
	}
	return &b.states[i], it.limit.params, algo.Request{Cost: it.charge.Cost}, w
}
