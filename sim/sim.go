package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
)

// Config says how a [Sim] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// MaxKeys bounds the buckets. Beyond it some are forgotten, as the store of one process would, and a replay is not the same
	// twice: see [Sim.Forgotten]. Default: 10,000,000, of 32 bytes each.
	MaxKeys int
}

const defaultMaxKeys = 10_000_000

// A Sim decides requests in virtual time. It is not safe for concurrent use. Create it with [New] and close it when done.
type Sim struct {
	engine  *rules.Engine
	store   *memstore.Store
	now     time.Time
	matched []rules.Matched
}

// ErrOrder is the error of a request that is earlier than one before it.
var ErrOrder = errors.New("sim: a request earlier than the one before it: sort them by time")

// New returns a Sim that decides by the rules. A nil config is the default. Rules of permits cannot be decided request by request,
// and are refused: leave them out with [rules.Set.Filter].
func New(set *rules.Set, cfg *Config) (*Sim, error) {
	if set == nil {
		return nil, errors.New("sim: the set is nil: give New one, such as that of rules.Load")
	}
	for _, r := range set.Rules() {
		if IsPermits(r) {
			return nil, fmt.Errorf("sim: rule %q is one of permits, which are held until they are released: leave it out", r.Name)
		}
	}
	maxKeys := defaultMaxKeys
	if cfg != nil && cfg.MaxKeys != 0 {
		maxKeys = cfg.MaxKeys
	}
	if maxKeys < 1 {
		return nil, fmt.Errorf("sim: %d keys: at least 1, or 0 for the default of %d", maxKeys, defaultMaxKeys)
	}
	s := &Sim{}
	s.store = memstore.New(&memstore.Config{MaxKeys: maxKeys, SweepEvery: -1, Now: s.Now})
	var err error
	if s.engine, err = rules.New(s.store, set, &rules.Config{Now: s.Now}); err != nil {
		_ = s.store.Close()
		return nil, err
	}
	return s, nil
}

// IsPermits reports whether any limit of the rule is one of permits.
func IsPermits(r *rules.Rule) bool {
	if r.Limit.Algorithm == tidegate.Concurrency || r.Limit.Then.Algorithm == tidegate.Concurrency {
		return true
	}
	for i := range r.Overrides {
		if l := &r.Overrides[i].Limit; l.Algorithm == tidegate.Concurrency || l.Then.Algorithm == tidegate.Concurrency {
			return true
		}
	}
	return false
}

// Now is the virtual time: that of the last request.
func (s *Sim) Now() time.Time { return s.now }

// Engine is what decides. Its rules may be swapped between requests.
func (s *Sim) Engine() *rules.Engine { return s.engine }

// Forgotten is how many buckets were forgotten for lack of room.
func (s *Sim) Forgotten() int64 { return s.store.Stats().Evicted }

// Advance moves the time to that of the next request. It is [ErrOrder] if that is earlier than the one before.
func (s *Sim) Advance(at time.Time) error {
	if at.Before(s.now) {
		return ErrOrder
	}
	s.now = at
	return nil
}

// Decide decides a request that comes at the moment, as [rules.Engine.Decide] does.
func (s *Sim) Decide(at time.Time, attributes tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	if err := s.Advance(at); err != nil {
		return tidegate.Decision{}, err
	}
	return s.engine.Decide(context.Background(), attributes, cost)
}

// Explain is Decide, and returns also what each rule that matched made of the request, until the next request.
func (s *Sim) Explain(at time.Time, attributes tidegate.Attributes, cost int64) (tidegate.Decision, []rules.Matched, error) {
	if err := s.Advance(at); err != nil {
		return tidegate.Decision{}, nil, err
	}
	var err error
	if s.matched, err = s.engine.Match(attributes, cost, s.matched[:0]); err != nil {
		return tidegate.Decision{}, nil, err
	}
	d, err := s.engine.Take(context.Background(), s.matched)
	return d, s.matched, err
}

// Close frees what the Sim holds.
func (s *Sim) Close() error { return s.store.Close() }
