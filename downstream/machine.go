package downstream

import "time"

// What follows runs under the lock.

func (b *Breaker) state() State { return State(b.word.Load() & stateMask) }

// tick reads the clock, and does what is due by it. A clock that goes back is followed from where it is then, so that no state
// lasts longer for it than it should; one that goes forward ends states early.
func (b *Breaker) tick() time.Duration {
	now := b.cfg.Now().Sub(b.start) + b.behind
	if now < b.now {
		b.behind += b.now - now
		now = b.now
	}
	b.now = now
	switch b.state() {
	case Open:
		if now-b.since >= b.cfg.OpenTime {
			b.turn(HalfOpen, now, Change{})
		}
	case Ramping:
		if now-b.since >= b.cfg.Ramp {
			b.turn(Closed, now, Change{})
		}
	case Closed, HalfOpen:
	}
	return now
}

// turn changes the state, and says so.
func (b *Breaker) turn(to State, now time.Duration, c Change) {
	c.From, c.To, c.Lasted = b.state(), to, now-b.since
	w := b.word.Load()&^stateMask | uint64(to)
	b.since = now
	if c.From != Ramping || to != Closed {
		w += generation
		b.began = now
		b.window.clear()
	}
	b.trying, b.good, b.tried = 0, 0, now
	b.due = 1 // so that a call now and then is not refused for want of others
	b.word.Store(w)
	if b.cfg.Changed != nil {
		b.cfg.Changed(c)
	}
}

func (b *Breaker) trip(now time.Duration, cause Cause, bad, of int64) {
	b.turn(Open, now, Change{Cause: cause, Bad: bad, Calls: of})
}

// mostWait is the longest that a caller is told to wait for a state of which nobody knows how long it lasts.
const mostWait = time.Second

// admit says whether a call may begin now, and counts it if it does.
func (b *Breaker) admit(now time.Duration, begins bool) (ok bool, retryAfter time.Duration) {
	switch b.state() {
	case Open:
		return false, b.since + b.cfg.OpenTime - now
	case HalfOpen:
		trying, tried := b.trying, b.tried
		if now-tried >= b.cfg.OpenTime {
			trying, tried = 0, now // those that were not told of are not waited for; if they are told of yet, they count
		}
		if trying+b.good >= b.cfg.HalfOpenCalls {
			return false, min(mostWait, tried+b.cfg.OpenTime-now)
		}
		if begins {
			if trying == 0 {
				tried = now
			}
			b.trying, b.tried = trying+1, tried
		}
	case Ramping:
		due := b.due + b.ramped(now)
		if due < 1 {
			if begins {
				b.due = due
			}
			return false, min(mostWait, b.since+b.cfg.Ramp-now)
		}
		if begins {
			b.due = due - 1
		}
	case Closed:
	}
	return true, 0
}

// ramped returns how much of the ramp is behind.
func (b *Breaker) ramped(now time.Duration) float64 {
	return float64(now-b.since) / float64(b.cfg.Ramp)
}

// record counts a call of the present generation.
func (b *Breaker) record(now, took time.Duration, o Outcome) {
	failed := o == Failed && b.cfg.FailureRatio > 0
	slow := o != Abandoned && b.cfg.SlowRatio > 0 && took > b.cfg.SlowAfter
	switch b.state() {
	case Open:
	case HalfOpen:
		switch {
		case o == Abandoned:
			b.trying = max(0, b.trying-1)
		case b.refusalsAlone(): // takes have told
		case failed:
			b.trip(now, Failures, 1, 1)
		case slow:
			b.trip(now, SlowCalls, 1, 1)
		default:
			b.went(now)
		}
	case Closed, Ramping:
		if o == Abandoned {
			return
		}
		t := tally{calls: 1}
		if o == Failed {
			t.failures = 1
		}
		if slow {
			t.slow = 1
		}
		b.window.add(now, t)
		b.judge(now)
	}
}

// refusalsAlone says that takes decide, and how calls go does not matter.
func (b *Breaker) refusalsAlone() bool { return b.cfg.FailureRatio == 0 && b.cfg.SlowRatio == 0 }

// went counts a trial that went well.
func (b *Breaker) went(now time.Duration) {
	b.trying = max(0, b.trying-1)
	if b.good++; b.good < b.cfg.HalfOpenCalls {
		return
	}
	if b.cfg.Ramp > 0 {
		b.turn(Ramping, now, Change{})
		return
	}
	b.turn(Closed, now, Change{})
}

// judge opens the breaker if a ratio is reached.
func (b *Breaker) judge(now time.Duration) {
	w := b.window.within
	for _, r := range [...]struct {
		cause   Cause
		ratio   float64
		bad, of int64
	}{
		{Failures, b.cfg.FailureRatio, w.failures, w.calls},
		{SlowCalls, b.cfg.SlowRatio, w.slow, w.calls},
		{Refusals, b.cfg.RefusalRatio, w.refusals, w.takes},
	} {
		if r.ratio > 0 && r.of >= int64(b.cfg.MinimumCalls) && float64(r.bad) >= r.ratio*float64(r.of) {
			b.trip(now, r.cause, r.bad, r.of)
			return
		}
	}
}
