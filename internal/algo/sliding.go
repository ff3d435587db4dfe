package algo

// Sliding window: a ring of counts of slices, the oldest weighted by the part of it that is still inside the window.
//
// State: a = the newest slice with a count (number since the epoch): the one of now, or one that is reserved in the future;
// b = the slice of the last write; c = how many slices a is ahead of ring[0]. The ring holds 2K+1 slices: those before
// now and those that may be reserved. Nobody is let in before a reservation that was made earlier.

func (p *Params) slidingLoad(s *State, now int64) (keep bool) {
	i := now / p.tick / p.width
	switch {
	case !s.used:
		*s = State{a: i, b: i}
		return false
	case i < s.b: // the clock went back: what is counted stays where it is, seen from now
		s.a -= s.b - i
		s.b = i
		keep = true
	}
	if i > s.a {
		s.c += i - s.a
		s.a = i
	}
	s.b = i
	return keep
}

// at returns the count of the slice j before the newest.
func (s *State) at(j int64) int64 {
	if s.lists == nil || j < s.c || j-s.c >= int64(len(s.lists.ring)) {
		return 0
	}
	return s.lists.ring[j-s.c]
}

// sum returns the count of the newest n slices.
func (s *State) sum(n int64) (sum int64) {
	for j := range n {
		sum += s.at(j)
	}
	return sum
}

// slidingFrom returns the tick at which a newcomer may be looked at, and how far that is into the newest slice: now, or
// the start of a slice that is reserved.
func (p *Params) slidingFrom(s *State, now int64) (t, into int64) {
	t = now / p.tick
	if into = t - s.a*p.width; into < 0 {
		return s.a * p.width, 0
	}
	return t, into
}

// slidingUsed returns the weighted count in units of a slice's ticks.
func (p *Params) slidingUsed(s *State, now int64) int64 {
	_, into := p.slidingFrom(s, now)
	return s.at(p.slices)*(p.width-into) + s.sum(p.slices)*p.width
}

func (p *Params) slidingCheck(s *State, r Request, now int64) Verdict {
	t, into := p.slidingFrom(s, now)
	sum := s.sum(p.slices)
	start := t
	for m := int64(0); m <= p.slices; m++ { // m slices from the newest
		if m > 0 {
			sum -= s.at(p.slices - m)
			start, into = (s.a+m)*p.width, 0
		}
		free := p.n - r.Cost - sum
		if free < 0 {
			continue
		}
		old := s.at(p.slices - m)
		at := int64(0)
		if old > free {
			at = p.width - free*p.width/old
		}
		if at < p.width || m == p.slices {
			start += max(0, at-into)
			break
		}
	}
	delay := start*p.tick - now
	if start <= now/p.tick {
		return Verdict{OK: true, Window: s.a}
	}
	slice := start / p.width
	if r.MaxWait > 0 && delay <= r.MaxWait && slice <= s.b+p.slices {
		return Verdict{OK: true, Delay: delay, Window: slice}
	}
	return Verdict{Retry: delay}
}

// slidingCharge counts n in the slice, which is the newest or later, and brings the ring in line.
func (p *Params) slidingCharge(s *State, n, slice int64) {
	s.c += slice - s.a
	s.a = slice
	p.slidingAlign(s)
	s.lists.ring[0] += n
}

// slidingAlign moves the ring so that its first count is that of the newest slice.
func (p *Params) slidingAlign(s *State) {
	if s.lists == nil {
		s.lists = &lists{ring: make([]int64, 2*p.slices+1)}
		s.c = 0
	}
	ring := s.lists.ring
	if n := min(s.c, int64(len(ring))); n > 0 {
		copy(ring[n:], ring)
		clear(ring[:n])
	}
	s.c = 0
}

// slidingRefund takes n off the newest counts.
func (p *Params) slidingRefund(s *State, n int64) {
	p.slidingAlign(s)
	left := false
	for j, c := range s.lists.ring {
		take := min(c, n)
		s.lists.ring[j] -= take
		n -= take
		left = left || s.lists.ring[j] > 0
	}
	s.used = left
}

func (p *Params) slidingSettle(s *State, rest, excess, slice int64, same bool) {
	p.slidingAlign(s)
	ring := s.lists.ring
	if excess > 0 {
		total := int64(0)
		for _, c := range ring {
			total += c
		}
		ring[0] += min(excess, max(0, 3*p.n-total))
	} else if j := s.a - slice; same && j >= 0 && j < int64(len(ring)) {
		ring[j] -= min(ring[j], rest)
	}
	p.slidingRefund(s, 0)
}

// slidingScale carries the counts over to another N, so that their sums keep their share.
func (p *Params) slidingScale(old *Params, s *State, up bool) {
	p.slidingAlign(s)
	sum, scaled := int64(0), int64(0)
	for j, c := range s.lists.ring {
		sum += c
		next := mulDiv(sum, p.n, old.n, up)
		s.lists.ring[j] = next - scaled
		scaled = next
	}
	p.slidingRefund(s, 0)
}

func (p *Params) slidingDescribe(s *State, now int64) (remaining, reset int64) {
	if s.a <= s.b {
		remaining = max(0, p.n*p.width-p.slidingUsed(s, now)) / p.width
	}
	if idle := p.slidingIdleAt(s); idle > now {
		reset = idle - now
	}
	return remaining, reset
}

// slidingIdleAt returns when (µs) the newest count has left the window; 0 if there is none.
func (p *Params) slidingIdleAt(s *State) int64 {
	for j := range 2*p.slices + 1 {
		if s.at(j) > 0 {
			return (s.a - j + p.slices + 1) * p.width * p.tick
		}
	}
	return 0
}
