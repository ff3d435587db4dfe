package resilience

import (
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Stepped is a [Store] in virtual time, for simulations: the same code, but its clock is the caller's, what it would do beside its
// callers it does when it is told to, and its chances are drawn from a seed. So a run is the same each time. It must be used by one
// goroutine at a time, and its stores must answer at once: Timeout is not used. Create it with [NewStepped].
type Stepped struct{ *Store }

// steps is what makes time virtual.
type steps struct {
	now    func() time.Time
	chance *mathrand.Rand
	next   time.Time // when the heartbeat is due
}

// NewStepped is [New] in virtual time. Now is the clock, which must not go back; shared must be on the same, and Config.Local too
// if it is set. The first heartbeat is due at once.
func NewStepped(shared tidegate.Store, cfg *Config, now func() time.Time, seed uint64) (*Stepped, error) {
	if now == nil {
		return nil, errors.New("resilience: the clock is nil: give NewStepped a function that returns the virtual time")
	}
	s, err := prepare(shared, cfg, &steps{now: now, chance: mathrand.New(mathrand.NewPCG(seed, 0)), next: now()})
	if err != nil {
		return nil, err
	}
	return &Stepped{s}, nil
}

// Next is when the next heartbeat or probe is due: the caller moves the clock there, and no further, before it calls Step.
func (s *Stepped) Next() time.Time {
	s.poked()
	return s.steps.next
}

// Step makes the heartbeat or probe that is due, with all that follows from its answer. It does nothing if none is due yet.
func (s *Stepped) Step() {
	s.poked()
	if now := s.steps.now(); !now.Before(s.steps.next) && !s.closed.Load() {
		s.steps.next = now.Add(s.beatOnce())
	}
}

// poked makes the next probe due soon if the breaker has opened since.
func (s *Stepped) poked() {
	select {
	case <-s.poke:
		s.steps.next = s.steps.now().Add(s.probe())
	default:
	}
}

// payInLine pays all debts, one after another.
func (s *Store) payInLine() {
	for i := range s.memories.shards {
		for _, c := range s.memories.debtors(i) {
			if _, closed := s.breaker.begin(); !closed {
				return // the rest when the store is back again
			}
			s.settling(&c)
		}
	}
}

// clock is this process's clock, by which states last.
func (s *Store) clock() time.Time {
	if s.steps != nil {
		return s.steps.now()
	}
	return time.Now()
}

// jitter returns a time from 0 to below d.
func (s *Store) jitter(d time.Duration) time.Duration {
	if s.steps != nil {
		return time.Duration(s.steps.chance.Int64N(int64(d)))
	}
	return mathrand.N(d)
}
