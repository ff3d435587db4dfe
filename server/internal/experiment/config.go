package experiment

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A Scenario is a way to keep a limit in several replicas.
type Scenario string

// The scenarios.
const (
	// Local: each replica has its part of the rate, and a burst, in its own memory.
	Local Scenario = "local"
	// Shared: one bucket in a store that all share.
	Shared Scenario = "shared"
	// Outage: the same, and the store goes away at a third of the time and is back at two thirds.
	Outage Scenario = "outage"
)

// Scenarios are all of them.
var Scenarios = []Scenario{Local, Shared, Outage}

// A Fault is how the store goes away.
type Fault string

// The faults.
const (
	// Kill: the process dies, and starts again without its data.
	Kill Fault = "kill"
	// Stop: the process is stopped, so that nothing is answered and no connection is closed, and goes on where it was.
	Stop Fault = "stop"
)

// Auto is the store that is started for the experiment.
const Auto = "auto"

// Config says what is tried.
type Config struct {
	// Store is [Auto] or the URL of a store in Redis, which is neither killed nor stopped.
	Store string
	// Replicas is how many there are: 1 to MaxReplicas.
	Replicas int
	// Skew is the part of the demand that each replica gets, in any unit; as many as there are replicas.
	Skew []float64
	// Limit is what all replicas together should let pass.
	Limit tidegate.Limit
	// Offered is how many requests are sent in a second: 1 to MaxOffered.
	Offered int
	// Duration is how long a run lasts.
	Duration time.Duration
	// Loads and Scenarios are combined; [Outage] is run with [Steady] alone.
	Loads     []Load
	Scenarios []Scenario
	// Fault is how the store goes away in an outage.
	Fault Fault
}

// What an experiment may come to.
const (
	MaxReplicas = 32
	MaxOffered  = 20_000
	MaxDuration = 10 * time.Minute
	// MinDuration leaves a window that begins after the first second; MinPulse is a pulse and its pause.
	MinDuration = 2 * time.Second
	MinPulse    = 3 * time.Second
	// MinOutage is three times what it takes until the shares are those of the load: replicas divide the limit by what
	// they admitted in the last two complete seconds of the store's clock.
	MinOutage = 9 * time.Second
)

// FieldError says what is wrong with a field of a [Config].
type FieldError struct {
	Field string // in lower case, such as "replicas"
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FieldError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// Plan says which runs a config comes to. The error is a [*FieldError] that says what cannot be run, and what to change.
func (c *Config) Plan() ([]Plan, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var plans []Plan
	for _, s := range c.Scenarios {
		loads := c.Loads
		if s == Outage {
			loads = []Load{Steady}
		}
		for _, l := range loads {
			p := Plan{Config: c, Scenario: s, Load: l}
			if err := p.check(); err != nil {
				return nil, err
			}
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// check refuses what no run could do.
func (c *Config) check() error {
	var sum float64
	for _, w := range c.Skew {
		if w < 0 || math.IsNaN(w) || math.IsInf(w, 0) {
			return wrong("skew", "a part of %v of the load: none is negative, as in 60,25,15", w)
		}
		sum += w
	}
	switch {
	case c.Store != Auto && !strings.Contains(c.Store, "://"):
		return wrong("store", "there is no store %q that replicas could share: write auto, or a URL such as redis://localhost:6379", c.Store)
	case c.Replicas < 1 || c.Replicas > MaxReplicas:
		return wrong("replicas", "%d is not from 1 to %d", c.Replicas, MaxReplicas)
	case len(c.Skew) != c.Replicas:
		return wrong("skew", "%d parts of the load for %d replicas: give each its part, as in 60,25,15 for three", len(c.Skew), c.Replicas)
	case sum <= 0 || math.IsInf(sum, 0):
		return wrong("skew", "the parts of the load are all 0: give at least one replica some, as in 60,25,15")
	case c.Offered < 1 || c.Offered > MaxOffered:
		return wrong("offered", "%d is not from 1 to %d", c.Offered, MaxOffered)
	case c.Duration < MinDuration || c.Duration > MaxDuration:
		return wrong("duration", "%v is not from %v, which leaves a second after the first, to %v", c.Duration, MinDuration, MaxDuration)
	case len(c.Loads) == 0 || len(c.Scenarios) == 0:
		return wrong("scenario", "there is nothing to run: name a load and a scenario")
	case c.Fault != Kill && c.Fault != Stop:
		return wrong("fault", "there is no fault %q: write kill or stop", c.Fault)
	}
	return checkLimit(c.Limit)
}

// checkLimit refuses limits that do not say what the downstream should see in a second.
func checkLimit(l tidegate.Limit) error {
	if err := l.Validate(); err != nil {
		return wrong("limit", "%w", err)
	}
	switch l.Algorithm {
	case tidegate.TokenBucket, tidegate.FixedWindow, tidegate.SlidingWindow, tidegate.SlidingLog:
		return nil
	case tidegate.LeakyBucket:
		return wrong("limit", "%q lets requests wait, and the replicas do not: give a token bucket or a window, as in %q", l, "600/s burst 100")
	case tidegate.Concurrency, tidegate.None, tidegate.Unlimited:
	}
	return wrong("limit", "%q is not a rate: give for example %q", l, "600/s burst 100")
}

// A Plan is one run.
type Plan struct {
	*Config
	Scenario Scenario
	Load     Load
}

func (p *Plan) check() error {
	switch {
	case p.Scenario == Outage && p.Store != Auto:
		return wrong("store", "an outage kills its store, or stops it, and so needs one of its own: leave the store auto, or the scenario outage out")
	case p.Scenario == Outage && p.Duration < MinOutage:
		return wrong("duration", "%v is too short for an outage, before which replicas must have seen two seconds of the load: at least %v", p.Duration, MinOutage)
	case p.Load == Pulse && p.Duration < MinPulse:
		return wrong("duration", "%v is too short for a pulse and its pause: at least %v", p.Duration, MinPulse)
	case p.Load == Legal && legalPart*perSecond(p.Limit) < 1:
		return wrong("limit", "%q lets less than one request pass in a second, too few for the load legal", p.Limit)
	case p.Scenario == Local:
		_, err := p.localLimit()
		return err
	}
	return nil
}

// localLimit is a replica's part of the rate, with the burst of the whole, as people divide a limit.
func (p *Plan) localLimit() (tidegate.Limit, error) {
	l, n := p.Limit, int64(p.Replicas)
	l.Lease, l.Shards = 0, 0
	switch {
	case l.Rate%n == 0:
		l.Rate /= n
	case l.Algorithm == tidegate.TokenBucket:
		l.Per *= time.Duration(n)
	case l.Rate > n:
		l.Rate /= n
	default:
		return l, wrong("limit", "%q cannot be divided among %d replicas: give a larger limit, or leave the scenario local out", p.Limit, n)
	}
	if err := l.Validate(); err != nil {
		return l, wrong("limit", "the part of %q that each of %d replicas has: %w", p.Limit, n, err)
	}
	return l, nil
}

// ParseScenario reads a scenario's name.
func ParseScenario(name string) (Scenario, error) {
	for _, s := range Scenarios {
		if string(s) == name {
			return s, nil
		}
	}
	return "", fmt.Errorf("there is no scenario %q: write local, shared, outage, or several with commas", name)
}
