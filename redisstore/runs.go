package redisstore

import (
	"context"
	"fmt"
	"slices"
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
	limit   *compiled
	key     string
	cost    int64
	takes   []*taking
	unequal bool // the takes are of more than one cost or limit
}

// add adds a take, and reports whether it is the first.
func (r *run) add(t *taking) (first bool) {
	it := &t.items[0]
	if first = len(r.takes) == 0; first {
		r.limit, r.key, r.cost = it.limit, it.key, it.charge.Cost
	}
	r.unequal = r.unequal || r.limit != it.limit || r.cost != it.charge.Cost
	r.takes = append(r.takes, t)
	return first
}

// runsOf returns the runs that the takes come to, and the takes that are not in one.
func runsOf(takes []*taking) (runs []*run, slow []*taking) {
	if len(takes) == 1 && takes[0].quick {
		r := &run{}
		r.add(takes[0])
		return []*run{r}, nil
	}
	for _, t := range takes {
		if t.quick && !t.bucket.mixed && t.bucket.run.add(t) {
			runs = append(runs, &t.bucket.run)
		}
	}
	runs = slices.DeleteFunc(runs, func(r *run) bool { return r.unequal })
	for _, t := range takes {
		if !t.quick || t.bucket.mixed || t.bucket.run.unequal {
			slow = append(slow, t)
		}
	}
	return runs, slow
}

// decideRuns decides runs by the run script, which tells what was in use before, so that each take's decision is worked
// out here, by the same algorithm. It returns the takes that the script left alone.
func (s *Store) decideRuns(ctx context.Context, runs []*run) (left []*taking, err error) {
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.run(ctx, s.scripts.run, s.timed(runCommand(runs)))
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
		passed := int64(len(r.takes))
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

// runCommand makes the command of the run script, and sorts the runs as it has their keys: those of one limit together.
func runCommand(runs []*run) []any {
	limits, single := 1, true
	for i, r := range runs {
		single = single && r.cost == 1 && len(r.takes) == 1
		if i > 0 && r.limit != runs[i-1].limit {
			limits++
		}
	}
	if limits > 1 {
		first := map[*compiled]int{}
		for i, r := range runs {
			if _, ok := first[r.limit]; !ok {
				first[r.limit] = i
			}
		}
		limits = len(first)
		slices.SortStableFunc(runs, func(a, b *run) int { return first[a.limit] - first[b.limit] })
	}
	size := scriptArgs + len(runs) + 2 + 6*limits + 1
	if !single {
		size += 2 * len(runs)
	}
	args := scriptCall(len(runs), size)
	for _, r := range runs {
		args = append(args, r.key)
	}
	args = append(args, limits, boolean(single))
	for i := 0; i < len(runs); {
		n, l := 1, runs[i].limit
		for i+n < len(runs) && runs[i+n].limit == l {
			n++
		}
		args = append(append(args, l.args...), n)
		i += n
	}
	if !single {
		for _, r := range runs {
			args = append(args, r.cost, len(r.takes))
		}
	}
	return args
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
