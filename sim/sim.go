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
	// Replicas is how many processes share the limits: with it each request is decided by one of them, by package resilience
	// around a store that all share. Default: 0, one process decides and its store never fails; but 1 if there are Outages, and as
	// many as have a Skew.
	Replicas int
	// Skew is how much of the traffic each replica gets, as 60, 25 and 15; only the ratios count. Each request goes to a replica
	// drawn by it. Default: the same to all.
	Skew []float64
	// Outages are when the replicas cannot reach the store that they share, in the order of time.
	Outages []Outage
	// Seed draws the replicas of requests, and when their heartbeats are. Default: 0.
	Seed uint64
	// Start is when the first request comes at the earliest; the replicas have then been there for some seconds. Required with
	// replicas.
	Start time.Time
}

const (
	defaultMaxKeys = 10_000_000
	maxReplicas    = 1000
)

// A Sim decides requests in virtual time. It is not safe for concurrent use. Create it with [New] and close it when done.
type Sim struct {
	engine  *rules.Engine // of the only process, or of the first replica
	store   *memstore.Store
	fleet   *fleet // nil for one process
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
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sim{}
	s.store = memstore.New(&memstore.Config{MaxKeys: c.MaxKeys, SweepEvery: -1, Now: s.Now})
	if c.Replicas > 0 {
		if s.fleet, err = s.newFleet(set, c); err == nil {
			s.engine = s.fleet.replicas[0].engine
		}
	} else {
		s.engine, err = rules.New(s.store, set, &rules.Config{Now: s.Now})
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (cfg *Config) withDefaults() (Config, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = defaultMaxKeys
	}
	if c.MaxKeys < 1 {
		return c, fmt.Errorf("sim: %d keys: at least 1, or 0 for the default of %d", c.MaxKeys, defaultMaxKeys)
	}
	switch {
	case c.Replicas == 0 && len(c.Skew) > 0:
		c.Replicas = len(c.Skew)
	case c.Replicas == 0 && len(c.Outages) > 0:
		c.Replicas = 1
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		return c, fmt.Errorf("sim: %d replicas: 1 to %d", c.Replicas, maxReplicas)
	}
	if len(c.Skew) > 0 && len(c.Skew) != c.Replicas {
		return c, fmt.Errorf("sim: %d parts of the traffic for %d replicas: give each one", len(c.Skew), c.Replicas)
	}
	for _, part := range c.Skew {
		if !(part > 0 && part <= 1e9) {
			return c, fmt.Errorf("sim: a part of %v of the traffic: above 0, up to 1e9", part)
		}
	}
	if c.Replicas > 0 && c.Start.IsZero() {
		return c, errors.New("sim: Start is not set: say when the first request comes, so that the replicas are there by then")
	}
	return c, checkOutages(c.Outages)
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

// Engine is what decides: the only process's, or the first replica's. Where there are no replicas, its rules may be swapped between
// requests.
func (s *Sim) Engine() *rules.Engine { return s.engine }

// Forgotten is how many buckets were forgotten for lack of room.
func (s *Sim) Forgotten() int64 {
	n := s.store.Stats().Evicted
	if s.fleet != nil {
		n += s.fleet.forgotten()
	}
	return n
}

// Advance moves the time to that of the next request. It is [ErrOrder] if that is earlier than the one before.
func (s *Sim) Advance(at time.Time) error {
	if at.Before(s.now) {
		return ErrOrder
	}
	if s.fleet != nil {
		s.fleet.until(at)
	}
	s.now = at
	return nil
}

// next is what decides the next request.
func (s *Sim) next() *rules.Engine {
	if s.fleet != nil {
		return s.fleet.deal()
	}
	return s.engine
}

// Decide decides a request that comes at the moment, as [rules.Engine.Decide] does.
func (s *Sim) Decide(at time.Time, attributes tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	if err := s.Advance(at); err != nil {
		return tidegate.Decision{}, err
	}
	return s.next().Decide(context.Background(), attributes, cost)
}

// Explain is Decide, and returns also what each rule that matched made of the request, until the next request.
func (s *Sim) Explain(at time.Time, attributes tidegate.Attributes, cost int64) (tidegate.Decision, []rules.Matched, error) {
	if err := s.Advance(at); err != nil {
		return tidegate.Decision{}, nil, err
	}
	engine := s.next()
	var err error
	if s.matched, err = engine.Match(attributes, cost, s.matched[:0]); err != nil {
		return tidegate.Decision{}, nil, err
	}
	d, err := engine.Take(context.Background(), s.matched)
	return d, s.matched, err
}

// Close frees what the Sim holds.
func (s *Sim) Close() error {
	var err error
	if s.fleet != nil {
		err = s.fleet.close()
	}
	return errors.Join(err, s.store.Close())
}
