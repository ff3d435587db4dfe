package redisstore

import (
	"context"
	"fmt"
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
	text, _ := reply.(string)
	fields := numbers{text: text}
	now, ok := fields.next()
	for _, r := range runs {
		if !ok {
			break
		}
		if fields.skip('!') {
			r.limit.misses.Store(misses)
			left = append(left, r.takes...)
			continue
		}
		var used int64
		passed := int64(r.n)
		used, ok = fields.next()
		if ok && fields.ended == ':' {
			passed, ok = fields.next()
		}
		if ok {
			st, retry := r.tell(used, passed, now)
			if retry > 0 && !s.cfg.NoDeniedCache {
				s.denied.note(&r.takes[0].items[0], refusal{at: now, sent: sent, told: s.clock(), state: st}, retry, forgot)
			}
		}
	}
	if !ok {
		return nil, fmt.Errorf("the script answered %q", text)
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
	size := scriptArgs + len(runs) + 2 + 6*len(limits) + 1
	if !single {
		size += 2 * len(runs)
	}
	args := scriptCall(p.args, len(runs), size)
	for _, r := range runs {
		args = p.appendKey(args, &r.key)
	}
	args = appendLimits(append(args, len(limits), boolean(single)), limits)
	if !single {
		for _, r := range runs {
			args = append(args, r.cost, r.n)
		}
	}
	p.args = args
	return args
}

// tell tells each take of a run what its decision is worked out from, and returns the state after them and when the last
// one, if it was refused, can pass.
func (r *run) tell(used, passed, now int64) (st algo.State, retry time.Duration) {
	for _, t := range r.takes {
		t.ran = ran{told: true, used: used, passed: passed, now: now, first: t.ran.first}
	}
	if passed < int64(r.n) {
		p := r.limit.params
		st = p.Resume(used+passed*r.cost*p.Unit(), now)
		retry = duration(p.Check(&st, algo.Request{Cost: r.cost}, now, algo.Window{}).Retry)
	}
	return st, retry
}

// numbers reads a text of numbers, each ended by a byte of its own.
type numbers struct {
	text  string
	ended byte // what ended the last number
}

func (n *numbers) skip(c byte) bool {
	if n.text == "" || n.text[0] != c {
		return false
	}
	n.text = n.text[min(2, len(n.text)):]
	return true
}

func (n *numbers) next() (v int64, ok bool) {
	i := 0
	for ; i < len(n.text) && n.text[i] >= '0' && n.text[i] <= '9'; i++ {
		v = v*10 + int64(n.text[i]-'0')
	}
	ok = i > 0 && i < 19
	n.ended = 0
	if i < len(n.text) {
		n.ended = n.text[i]
		i++
	}
	n.text = n.text[i:]
	return v, ok
}
