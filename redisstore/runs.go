package redisstore

import (
	"context"
	"time"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// run is a number of takes of one plain bucket at one cost.
type run struct {
	limit *compiled
	key   string
	cost  int64
	takes []*taking
	n     int // takes, of which those that are alike may be one
}

// add adds a take, and reports whether it is the first.
func (r *run) add(t *taking) (first bool) {
	it := &t.items[0]
	if first = len(r.takes) == 0; first {
		r.limit, r.key, r.cost = it.limit, it.key, it.charge.Cost
	}
	t.ran.first = r.n
	r.n += t.times
	r.takes = append(r.takes, t)
	return first
}

// decideRuns decides runs by the run script, which tells what was in use before, so that each take's decision is worked
// out here, by the same algorithm. It returns the takes that the script left alone.
func (s *Store) decideRuns(ctx context.Context, p *plan) (left []*taking, err error) {
	runs := p.runs
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.run(ctx, s.scripts.run, s.timed(p.runCommand()))
	if err != nil {
		return nil, err
	}
	fields := readNumbers(reply)
	now, ok := fields.next()
	for _, r := range runs {
		used, known := fields.next()
		switch {
		case ok && fields.alone:
			r.limit.misses.Store(misses)
			left = append(left, r.takes...)
			continue
		case !ok, !known:
			return nil, badReply(reply)
		}
		st, retry := r.tell(used, now)
		if retry > 0 && !s.cfg.NoDeniedCache {
			s.denied.note(&r.takes[0].items[0], refusal{at: now, sent: sent, told: s.clock(), state: st}, retry, forgot)
		}
	}
	if !fields.atEnd() {
		return nil, badReply(reply)
	}
	return left, nil
}

// runCommand makes the command of the run script, and sorts the runs as it has their keys.
func (p *plan) runCommand() []any {
	runs := p.runs
	limits := byLimit(runs, func(r *run) *compiled { return r.limit })
	single := true
	for _, r := range runs {
		single = single && r.cost == 1 && r.n == 1
	}
	args := scriptCall(p.room(), len(runs), scriptArgs+len(runs)+2+6*len(limits)+1+1)
	for _, r := range runs {
		args = p.appendKey(args, &r.key)
	}
	args = appendLimits(append(args, len(limits), boolean(single)), limits)
	if !single {
		for _, r := range runs {
			p.totals = appendDouble(appendDouble(p.totals, float64(r.cost)), float64(r.n))
		}
		args = append(args, p.totals)
	}
	p.args = args
	return args
}

// tell tells each take of a run what its decision is worked out from, and returns the state after them and when the last
// one, if it was refused, can pass.
func (r *run) tell(used, now int64) (st algo.State, retry time.Duration) {
	p := r.limit.params
	cost := r.cost * p.Unit()
	passed := min(int64(r.n), max(0, p.Most()-used)/cost)
	for _, t := range r.takes {
		t.ran = ran{told: true, used: used, passed: passed, now: now, first: t.ran.first}
	}
	if passed < int64(r.n) {
		st = p.Resume(used+passed*cost, now)
		retry = duration(p.Check(&st, algo.Request{Cost: r.cost}, now, algo.Window{}).Retry)
	}
	return st, retry
}
