package algo

// Token bucket, leaky bucket and warm-up: one bucket that may go into debt.
//
// State: a = units in use (0 is full, size is empty, more is debt), b = the tick up to which it was refilled,
// c = the tick at which the warm-up began.

// bucketLoad refills up to now. A bucket whose time is ahead of the clock is taken back to it with what it had.
func (p *Params) bucketLoad(s *State, now int64) (keep bool) {
	t := now / p.tick
	if !s.used {
		s.b = t
		return p.coldStart(s, t)
	}
	if s.b > t {
		s.c -= s.b - t
		s.b = t
		return true
	}
	if p.step > 0 && t >= s.b+p.drainTime(s, s.a)+p.step*steps {
		return p.coldStart(s, t)
	}
	s.a -= p.drained(s, t)
	s.b = t
	return false
}

// coldStart empties a bucket that warms up and has been full and idle for as long as the warm-up takes.
func (p *Params) coldStart(s *State, t int64) bool {
	if p.step == 0 {
		return false
	}
	s.a, s.b, s.c, s.used = p.size, t, t, true
	return true
}

// drained returns how many of the units in use come back from s.b up to t. Whether all do is asked first, so that no
// product grows beyond what is in use, however long the bucket was idle.
func (p *Params) drained(s *State, t int64) int64 {
	used, at := s.a, s.b
	if p.step > 0 {
		for i := max(0, (at-s.c)/p.step); i < steps && at < t && used > 0; i++ {
			gain := p.gain / 12 * (4 + i)
			ticks := min(t, s.c+(i+1)*p.step) - at
			if ticks >= ceilDiv(used, gain) {
				return s.a
			}
			used -= ticks * gain
			at += ticks
		}
	}
	if t-at >= ceilDiv(used, p.gain) {
		return s.a
	}
	return s.a - used + (t-at)*p.gain
}

// drainTime returns how many ticks after s.b units come back.
func (p *Params) drainTime(s *State, units int64) int64 {
	at := s.b
	if p.step > 0 {
		for i := max(0, (at-s.c)/p.step); i < steps && units > 0; i++ {
			gain := p.gain / 12 * (4 + i)
			ticks := s.c + (i+1)*p.step - at
			if need := ceilDiv(units, gain); ticks >= need {
				return at - s.b + need
			}
			units -= ticks * gain
			at += ticks
		}
	}
	return at - s.b + ceilDiv(units, p.gain)
}

func (p *Params) bucketCheck(s *State, r Request, now int64) Verdict {
	over := s.a + r.Cost*p.cost - p.size
	if over <= 0 {
		return Verdict{OK: true}
	}
	delay := (s.b+p.drainTime(s, over))*p.tick - now
	if r.MaxWait > 0 {
		if delay <= r.MaxWait && over <= p.most-p.size && (p.debt == 0 || over <= p.debt) {
			return Verdict{OK: true, Delay: delay}
		}
		return Verdict{Retry: delay}
	}
	if over <= p.debt {
		return Verdict{OK: true, Delay: delay}
	}
	return Verdict{Retry: (s.b+p.drainTime(s, over-p.debt))*p.tick - now}
}

func (p *Params) bucketRefund(s *State, n int64) {
	if s.a/p.cost < n {
		s.a = 0
	} else {
		s.a -= n * p.cost
	}
	s.used = s.a > 0 || p.step > 0
}

func (p *Params) bucketDescribe(s *State, now int64) (remaining, reset int64) {
	remaining = max(0, p.size+p.debt-s.a) / p.cost
	if s.a > 0 {
		reset = (s.b+p.drainTime(s, s.a))*p.tick - now
	}
	return remaining, reset
}

func (p *Params) bucketConvert(old *Params, s *State, change int64, up bool) {
	at := max(s.b*old.tick, change)
	if change > s.b*old.tick {
		s.a -= old.drained(s, change/old.tick)
	}
	s.a = min(p.most, mulDiv(s.a, p.size+p.debt, old.size+old.debt, up))
	s.b = ceilDiv(at, p.tick)
	if old.step > 0 {
		s.c = s.c * old.tick / p.tick
	} else {
		s.c = s.b - p.step*steps
	}
	s.used = s.a > 0 || p.step > 0
}

// bucketIdleAt returns when (µs) the state is as good as none.
func (p *Params) bucketIdleAt(s *State) int64 {
	return (s.b + p.drainTime(s, s.a) + p.step*steps) * p.tick
}

// Plain returns the numbers of a bucket that does not warm up, for a script that decides runs of equal takes: the units
// that a token costs, that a tick gives, and that can be in use, and the µs of a tick.
func (p *Params) Plain() (cost, gain, size, tick int64, ok bool) {
	return p.cost, p.gain, p.size + p.debt, p.tick, p.Kind == Bucket && p.step == 0
}

// Unit returns the units of a bucket that a token is.
func (p *Params) Unit() int64 { return p.cost }

// Most returns the units of a bucket that a take can leave in use.
func (p *Params) Most() int64 { return p.size + p.debt }

// Tick returns the µs of a tick.
func (p *Params) Tick() int64 { return p.tick }

// Resume returns the loaded state of a plain bucket of which so many units are in use now.
func (p *Params) Resume(used, now int64) State {
	return State{a: used, b: now / p.tick, used: used > 0}
}
