package replay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/server/internal/accesslog"
	"github.com/tidegate-go/tidegate/sim"
)

// Config says what a replay is of.
type Config struct {
	// Rules are those that requests are decided by. Required.
	Rules *rules.Set
	// Compare are rules that the decisions are compared with. Default: none.
	Compare *rules.Set
	// Mapping says which fields of the log attributes are taken from, before all others.
	Mapping Mapping
	// ClientIP says whose word is taken for a request's address, as [httplimit.Config] does. Default: nobody's.
	ClientIP clientip.Config
	// Replicas is how many processes share the limits, and Skew how much of the traffic each gets: see [sim.Config]. Default: one, whose
	// store is never away.
	Replicas int
	Skew     []float64
	// Outages are when the store that they share is away.
	Outages []Period
	// Seed draws the replica that gets a request, and when replicas beat.
	Seed uint64
	// Decided is told of each decision. Default: nobody is.
	Decided func(*Decided)
}

// Decided is a request and what became of it.
type Decided struct {
	At       time.Time
	Entry    *accesslog.Entry
	Decision tidegate.Decision
}

// Run decides the requests of the logs, which it reads to their end, or until the context's. The error is of a log that could not
// be read to its end, or of a decision that could not be made; the report is of what was decided until then.
func Run(ctx context.Context, logs []*accesslog.Log, cfg *Config) (*Report, error) {
	requests := accesslog.Merge(ctx, logs)
	defer requests.Close()
	e := requests.Next()
	var first, last time.Time
	if e != nil {
		first, last = e.Time, e.Time
	}
	virtual := cfg.sim(first)
	fresh, err := newTally(cfg.Rules, virtual)
	if err != nil {
		return nil, err
	}
	defer fresh.sim.Close()
	var old *tally
	if cfg.Compare != nil {
		if old, err = newTally(cfg.Compare, virtual); err != nil {
			return nil, err
		}
		defer old.sim.Close()
	}
	// It is asked for attributes alone, and warns of nothing: a log of old is no misuse of now.
	middleware, err := httplimit.New(fresh.sim.Engine(), &httplimit.Config{ClientIP: &cfg.ClientIP, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer middleware.Close()

	var differences *comparison
	if old != nil {
		differences = newComparison()
	}
	var failed error
	for ; e != nil && ctx.Err() == nil; e = requests.Next() {
		last = e.Time
		a := &attributes{middleware.Attributes(request{e}), e, cfg.Mapping.Attributes}
		d, key, err := fresh.add(e.Time, a)
		if err != nil {
			failed = err
			break
		}
		if old != nil {
			od, oldKey, err := old.add(e.Time, a)
			if err != nil {
				failed = err
				break
			}
			if od.Allowed && !d.Allowed {
				differences.count(true, false, d.Rule, key)
			} else {
				differences.count(od.Allowed, d.Allowed, od.Rule, oldKey)
			}
		}
		if cfg.Decided != nil {
			cfg.Decided(&Decided{e.Time, e, d})
		}
	}
	requests.Close()
	r := fresh.report(requests.Counts(), first, last)
	if differences != nil {
		r.Compare = differences.report()
	}
	r.Interrupted = ctx.Err() != nil
	if err := requests.Err(); err != nil && !errors.Is(err, context.Canceled) && failed == nil {
		failed = err
	}
	return r, failed
}

// sim is how a log is replayed that begins at a moment.
func (c *Config) sim(first time.Time) *sim.Config {
	s := &sim.Config{Replicas: c.Replicas, Skew: c.Skew, Outages: c.outages(first), Seed: c.Seed, Start: first}
	if first.IsZero() { // there is nothing to replay
		s.Replicas, s.Skew, s.Outages = 0, nil, nil
	}
	return s
}
