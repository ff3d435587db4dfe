package downstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Breaker keeps calls from a downstream that is in trouble. It is safe for concurrent use; create it with [New].
type Breaker struct {
	cfg   Config
	start time.Time

	// word is the generation and the state, for those who need not wait for the lock. Each state begins a generation, but for the
	// closed one after the ramp: what began on the ramp still tells how things are.
	word atomic.Uint64

	mu     sync.Mutex
	now    time.Duration // on a clock that never goes back
	behind time.Duration // how far the given clock has gone back in all
	since  time.Duration // when the state began
	began  time.Duration // when the generation did
	window window

	// Of the half-open state: calls under way and calls that went well; together never more than HalfOpenCalls.
	trying, good int
	tried        time.Duration // when the present trials began

	due float64 // on the ramp: calls that may begin, in parts of one
}

const (
	stateBits  = 2
	stateMask  = 1<<stateBits - 1
	generation = 1 << stateBits // one
)

// New returns a closed breaker. A nil config is the default.
func New(cfg *Config) (*Breaker, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{cfg: c, window: newWindow(c.Window)}
	if b.cfg.Now == nil {
		b.cfg.Now = time.Now
	}
	b.start = b.cfg.Now()
	return b, nil
}

// A Call is one that may have begun. The zero Call has not.
type Call struct {
	breaker *Breaker
	word    uint64 // as of which it began
}

// OK says whether the call may begin. One that is OK must be recorded, whatever becomes of it.
func (c Call) OK() bool { return c.breaker != nil }

// Record says how long the call took, and how it went. It counts only if the breaker has neither opened nor half-opened nor
// begun a ramp since the call began: what began before says nothing about now. A call is recorded once; one that may not begin,
// never.
func (c Call) Record(took time.Duration, o Outcome) {
	b := c.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tick()
	if c.word/generation == b.word.Load()/generation {
		b.record(now, took, o)
	}
}

// Allow says whether a call of the downstream may begin, and if not, when to ask again. While closed it takes no lock.
func (b *Breaker) Allow() (c Call, retryAfter time.Duration) {
	if w := b.word.Load(); State(w&stateMask) == Closed {
		return Call{b, w}, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ok, retryAfter := b.admit(b.tick(), true)
	if !ok {
		return Call{}, retryAfter
	}
	return Call{b, b.word.Load()}, 0
}

// Peek says what Allow would, and lets no call begin.
func (b *Breaker) Peek() (ok bool, retryAfter time.Duration) {
	if State(b.word.Load()&stateMask) == Closed {
		return true, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.admit(b.tick(), false)
}

// Record says how a call went that ended just now, for those who have no [Call]: in another process, say, or where one asks and
// another makes the call. It began when it ended less the time it took; if that is before the present generation did, it counts
// for nothing.
func (b *Breaker) Record(took time.Duration, o Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tick()
	if now-max(took, 0) >= b.began {
		b.record(now, took, o)
	}
}

// Take notes a take by the limit in front of the downstream, and whether it was allowed. Where a breaker trips on refusals
// alone, takes are also what its trials go by.
func (b *Breaker) Take(allowed bool) {
	if b.cfg.RefusalRatio == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tick()
	switch b.state() {
	case Open:
	case HalfOpen:
		if !allowed {
			b.trip(now, Refusals, 1, 1)
		} else if b.refusalsAlone() {
			b.went(now)
		}
	case Closed, Ramping:
		t := tally{takes: 1}
		if !allowed {
			t.refusals = 1
		}
		b.window.add(now, t)
		b.judge(now)
	}
}

// Factor returns how much of its limit is left to a rule that is linked to the breaker and tightens to that part: as much while it
// is open or half-open, 1 while it is closed, and along the ramp from the one to the other.
func (b *Breaker) Factor(to float64) float64 {
	to = min(max(to, 0), 1)
	if State(b.word.Load()&stateMask) == Closed {
		return 1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tick()
	switch b.state() {
	case Closed:
		return 1
	case Ramping:
		return min(1, to+(1-to)*b.ramped(now))
	case Open, HalfOpen:
	}
	return to
}

// Status tells how things are.
type Status struct {
	State State
	// Lasted is how long the state has lasted.
	Lasted time.Duration
	// Calls, Failures and Slow, Takes and Refusals lie within the window.
	Calls, Failures, Slow int64
	Takes, Refusals       int64
}

// Status returns how things are.
func (b *Breaker) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tick()
	b.window.at(now)
	w := b.window.within
	return Status{b.state(), now - b.since, w.calls, w.failures, w.slow, w.takes, w.refusals}
}
