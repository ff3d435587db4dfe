package algo

// Window is the fixed window that contains now, and the ends of the two after it, in µs. It is the zero Window for kinds
// other than [Fixed].
type Window struct{ Start, End, Next, Last int64 }

// after returns the end of the window that begins at end, which is not before now.
func (w Window) after(end int64) int64 {
	switch {
	case end < w.End:
		return w.End
	case end < w.Next:
		return w.Next
	}
	return w.Last
}

// Fixed window. State: a = the end of the window in which b is counted, c = the count reserved in the window after.

// fixedLoad rolls over into the window of now. A window that ends later than now's length from now is one that the clock
// has left backwards: its count stays, for no longer than a window.
func (p *Params) fixedLoad(s *State, now int64, w Window) (keep bool) {
	switch {
	case !s.used:
		s.a, s.b, s.c = w.End, 0, 0
	case s.a <= now:
		if s.a >= w.Start {
			s.b = s.c
		} else {
			s.b = 0
		}
		s.a, s.c = w.End, 0
		s.used = s.b > 0
	case s.a-now > w.End-w.Start:
		s.a = now + w.End - w.Start
		return true
	}
	return false
}

func (p *Params) fixedCheck(s *State, r Request, now int64, w Window) Verdict {
	switch {
	case s.b+r.Cost <= p.n:
		return Verdict{OK: true, Window: s.a}
	case s.c+r.Cost > p.n:
		return Verdict{Retry: w.after(s.a) - now}
	case r.MaxWait > 0 && s.a-now <= r.MaxWait:
		return Verdict{OK: true, Delay: s.a - now, Window: w.after(s.a)}
	}
	return Verdict{Retry: s.a - now}
}

func (p *Params) fixedDescribe(s *State, now int64, w Window) (remaining, reset int64) {
	switch {
	case s.c > 0:
		reset = w.after(s.a) - now
	case s.b > 0:
		reset = s.a - now
	}
	return max(0, p.n-s.b), reset
}

// PlainWindow returns what a fixed window of a fixed length holds, and its length in µs; it reports false for all else.
func (p *Params) PlainWindow() (n, width int64, ok bool) {
	return p.n, p.width, p.Kind == Fixed && !p.Calendar()
}
