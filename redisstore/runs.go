package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// misses is how many takes of a limit go past the run script once it has left one alone.
const misses = 64

// isQuick reports whether the run script may decide the take.
func (t *taking) isQuick() bool {
	if len(t.items) != 1 || t.hold.id != "" {
		return false
	}
	c, l := t.items[0].charge, t.items[0].limit
	if l.misses.Load() > 0 {
		l.misses.Add(-1)
		return false
	}
	return l.tail != "" && c.Cost > 0 && c.Cost <= l.params.Capacity && c.MaxWait <= 0 && !c.Shadow
}

// decideBatch decides takes in order: those of plain buckets by runs, and all that share a bucket with another kind of
// take, or that the run script leaves alone, by the take script. An error is left with the takes that it concerns.
func (s *Store) decideBatch(ctx context.Context, takes []*taking) {
	runs, slow := runsOf(takes)
	if len(runs) > 0 {
		left, err := s.decideRuns(ctx, runs)
		if err != nil {
			for _, r := range runs {
				fail(r.takes, err)
			}
		}
		slow = append(slow, left...)
	}
	for len(slow) > 0 {
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

// run is a number of takes of one plain bucket at one cost.
type run struct {
	limit *compiled
	key   string
	cost  int64
	takes []*taking
}

func runsOf(takes []*taking) (runs []*run, slow []*taking) {
	if len(takes) == 1 {
		if t := takes[0]; t.quick {
			return []*run{{t.items[0].limit, t.items[0].key, t.items[0].charge.Cost, takes}}, nil
		}
		return nil, takes
	}
	byKey := make(map[string]*run, len(takes))
	for _, t := range takes {
		if !t.quick {
			for i := range t.items {
				byKey[t.items[i].key] = nil // nobody runs on a bucket that another kind of take is on
			}
		}
	}
	for _, t := range takes {
		it := &t.items[0]
		if !t.quick {
			continue
		}
		r, ok := byKey[it.key]
		switch {
		case !ok:
			r = &run{it.limit, it.key, it.charge.Cost, nil}
			byKey[it.key] = r
			runs = append(runs, r)
		case r == nil:
			continue
		case r.cost != it.charge.Cost || r.limit != it.limit:
			r.cost = 0 // unequal takes: not a run
		}
		r.takes = append(r.takes, t)
	}
	n := 0
	for _, r := range runs {
		if r.cost == 0 {
			byKey[r.key] = nil
		} else {
			runs[n] = r
			n++
		}
	}
	for _, t := range takes {
		if !t.quick || byKey[t.items[0].key] == nil {
			slow = append(slow, t)
		}
	}
	return runs[:n], slow
}

// decideRuns decides runs by the run script, which tells what was in use before, so that each take's decision is worked
// out here, by the same algorithm. It returns the takes that the script left alone.
func (s *Store) decideRuns(ctx context.Context, runs []*run) (left []*taking, err error) {
	var a arguments
	keys := make([]string, len(runs))
	rest := make([]any, 0, 3*len(runs))
	for i, r := range runs {
		keys[i] = r.key
		rest = append(rest, a.specIndex(r.limit), r.cost, len(r.takes))
	}
	args := make([]any, 0, 2+5*len(a.specs)+len(rest))
	args = append(args, len(a.specs))
	for _, l := range a.specs {
		args = append(args, l.tail, l.cost, l.gain, l.size, l.tick)
	}
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.run(ctx, s.scripts.run, keys, s.timed(append(args, rest...)))
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	fields := numbers{text}
	now, ok := fields.next()
	for _, r := range runs {
		if !ok {
			break
		}
		var used, n int64
		if fields.skip('!') {
			r.limit.misses.Store(misses)
			left = append(left, r.takes...)
			continue
		}
		used, _ = fields.next()
		if n, ok = fields.next(); ok {
			st, retry := r.tell(used, n, now)
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

// tell gives each take of a run its decision, and returns the state after them and when a refused one can pass.
func (r *run) tell(used, passed, now int64) (st algo.State, retry time.Duration) {
	p := r.limit.params
	st = p.Resume(used, now)
	for i, t := range r.takes {
		var v algo.Verdict
		q := algo.Request{Cost: r.cost}
		if int64(i) < passed {
			v = p.Take(&st, q, now, algo.Window{})
		} else {
			v = p.Check(&st, q, now, algo.Window{})
		}
		remaining, reset := p.Describe(&st, now, algo.Window{})
		t.decisions[0] = decide(&t.items[0], v.OK, p.Capacity, remaining, v.Retry, reset, v.Delay)
		retry = t.decisions[0].RetryAfter
	}
	return st, retry
}

// numbers reads a text of numbers with a space between.
type numbers struct{ text string }

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
	n.text = n.text[min(i+1, len(n.text)):]
	return v, ok
}
