package algo

import "sort"

// Sliding log: an entry for each take. An entry leaves the window when it is as old as the window is long.
//
// State: a = how far the clock has gone back in all (µs), so that now + a, the bucket's own time, never does;
// b = now at the last write; c = the cost of all entries that were dropped. An entry holds the cost of all up to and
// including itself, so that what is live is a difference, however many there are.

type entry struct{ at, sum int64 }

// shiftedLoad notes how far the clock has gone back, for the log and for permits.
func shiftedLoad(s *State, now int64) (keep bool) {
	if !s.used {
		*s = State{b: now}
		return false
	}
	if now < s.b {
		s.a += s.b - now
		keep = true
	}
	s.b = now
	return keep
}

func (s *State) entries() []entry {
	if s.lists == nil {
		return nil
	}
	return s.lists.log
}

// logLive returns the number of entries that have left, the cost up to them, and the cost of those that have not.
func (p *Params) logLive(s *State, now int64) (gone int, base, live int64) {
	log, t := s.entries(), now+s.a
	gone = sort.Search(len(log), func(i int) bool { return log[i].at+p.width > t })
	base = s.c
	if gone > 0 {
		base = log[gone-1].sum
	}
	if len(log) > 0 {
		live = log[len(log)-1].sum - base
	}
	return gone, base, live
}

func (p *Params) logCheck(s *State, r Request, now int64) Verdict {
	_, base, live := p.logLive(s, now)
	if live+r.Cost <= p.n {
		return Verdict{OK: true}
	}
	log := s.entries()
	need := base + live + r.Cost - p.n
	i := sort.Search(len(log), func(i int) bool { return log[i].sum >= need })
	return Verdict{Retry: log[i].at + p.width - now - s.a}
}

func (p *Params) logCharge(s *State, n, now int64) {
	gone, base, live := p.logLive(s, now)
	if s.lists == nil {
		s.lists = &lists{}
	}
	if gone > 0 { // move down in place, so that a busy log does not grow behind its back
		s.lists.log = s.lists.log[:copy(s.lists.log, s.lists.log[gone:])]
		s.c = base
	}
	s.lists.log = append(s.lists.log, entry{now + s.a, base + live + n})
}

// logRefund takes n off the newest entries.
func (p *Params) logRefund(s *State, n, now int64) {
	_, base, live := p.logLive(s, now)
	if n >= live {
		*s = State{b: now}
		return
	}
	keep := base + live - n
	log := s.lists.log
	i := sort.Search(len(log), func(i int) bool { return log[i].sum >= keep })
	log[i].sum = keep
	s.lists.log = log[:i+1]
}

// logScale carries the entries over to another N, so that their sum keeps its share.
func (p *Params) logScale(old *Params, s *State, now int64, up bool) {
	gone, base, live := p.logLive(s, now)
	if live == 0 {
		*s = State{b: now}
		return
	}
	log := s.lists.log
	kept := log[:0]
	last := int64(0)
	for _, e := range log[gone:] {
		if sum := mulDiv(e.sum-base, p.n, old.n, up); sum > last {
			kept = append(kept, entry{e.at, sum})
			last = sum
		}
	}
	s.lists.log, s.c = kept, 0
	s.used = len(kept) > 0
}

func (p *Params) logDescribe(s *State, now int64) (remaining, reset int64) {
	_, _, live := p.logLive(s, now)
	if live > 0 {
		log := s.entries()
		reset = log[len(log)-1].at + p.width - now - s.a
	}
	return max(0, p.n-live), reset
}
