package resilience

import (
	"time"

	"github.com/tidegate-go/tidegate"
)

// The state follows the breaker: it is changed under the lock under which the breaker's word is looked at again, so that
// of an opening and a closing at the same moment the later one is told.

const (
	// calm is how long after it closed the breaker must open again to open for another reason.
	calm = 10 * time.Second
	// maxFlaps is how many times it may open sooner than that before its comings and goings are no longer logged.
	maxFlaps = 3
)

// flapping is what is remembered of openings that follow each other.
type flapping struct {
	closing time.Time     // when the breaker closed last
	holdoff time.Duration // how long it stays open at least, since it came back open so soon
	times   int           // how often in a row it opened before it was calm
	quiet   bool          // nothing is logged
	changes int           // of state that were not logged
}

// opens notes that the breaker opens.
func (f *flapping) opens(now time.Time) {
	switch since := now.Sub(f.closing); {
	case f.closing.IsZero() || since > calm:
		f.holdoff, f.times = 0, 0
		return
	case since < flapTime:
		f.holdoff = min(max(2*f.holdoff, minHoldoff), maxHoldoff)
	}
	f.times++
}

// opened notes that the breaker has opened.
func (s *Store) opened(err error) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	if _, closed := s.breaker.begin(); closed || s.state == Fallback {
		s.mu.Unlock()
		return // a heartbeat was quicker
	}
	if s.state == Shared {
		s.lostIt = false
	}
	s.flaps.opens(s.clock())
	s.cause = err
	c := s.move(Fallback, err)
	s.mu.Unlock()
	s.say(c)
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// back closes the breaker, and lets the shared store decide again, in a stage of its own if others may not know yet.
func (s *Store) back(t *tidegate.Table, lost bool) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	s.lostIt = s.lostIt || lost
	now := s.clock()
	s.flaps.closing = now
	// Who was back a probe before has reported too; none of the beats before the outage is that late.
	early := min(probeEvery+probeJitter, now.Sub(s.since)/2)
	known := s.known.Load()
	if s.registry == nil || known == 0 {
		known = int64(s.cfg.Replicas)
	}
	to := Shared
	if known > 1 {
		to = Returning
		s.beats.stage = stage{since: t.Now - early.Microseconds(), known: known, until: now.Add(stageTime)}
	}
	s.owedNow.Store(to == Shared)
	var changed *StateChange
	if s.state != to {
		c := s.move(to, nil)
		changed = &c
	}
	s.breaker.set(false)
	s.mu.Unlock()
	if changed != nil {
		s.say(*changed)
	}
	s.permits.back(s)
}

// finish ends a staged return, and reports whether it had not ended otherwise.
func (s *Store) finish() bool {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	if s.state != Returning {
		s.mu.Unlock()
		return false
	}
	c := s.move(Shared, nil)
	s.mu.Unlock()
	s.say(c)
	return true
}

// move changes the state. It is locked.
func (s *Store) move(to State, err error) StateChange {
	now := s.clock()
	c := StateChange{From: s.state, To: to, Lasted: now.Sub(s.since), Err: err, Lost: s.lostIt}
	s.state, s.since = to, now
	s.staged.Store(to == Returning)
	if to == Shared {
		s.outage.Add(1) // so that what fails before the breaker opens is of the same outage as what fails after
	}
	return c
}

// say tells the hook and the log of a change. What comes and goes all the time is logged only as such.
func (s *Store) say(c StateChange) {
	if s.cfg.Hooks.State != nil {
		defer s.cfg.Hooks.State(c)
	}
	f := &s.flaps
	if f.quiet {
		f.changes++
		return
	}
	log := s.cfg.Logger.With("from", c.From.String(), "lasted", c.Lasted.Round(time.Millisecond))
	switch c.To {
	case Fallback:
		log.Warn("tidegate: the store is away; rules' policies decide", "kind", string(kindOf(c.Err)), "error", c.Err, "replicas", s.known.Load())
		if f.times >= maxFlaps {
			f.quiet = true
			s.cfg.Logger.Warn("tidegate: the store comes and goes; this is logged again when it stays", "times", f.times)
		}
	case Returning:
		log.Info("tidegate: the store is back; keeping to the share too until the others have noticed", "lost", c.Lost)
	case Shared:
		log.Info("tidegate: the store decides again", "lost", c.Lost, "debts", s.memories.owing.Load())
	}
}

// settleDown logs again once a store that came and went has stayed.
func (s *Store) settleDown() {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	lasted := s.clock().Sub(s.since)
	calmed := s.state == Shared && lasted > calm
	s.mu.Unlock()
	if f := &s.flaps; f.quiet && calmed {
		s.cfg.Logger.Info("tidegate: the store decides again, and stays", "changes", f.changes, "for", lasted.Round(time.Second))
		f.quiet, f.changes = false, 0
	}
}
