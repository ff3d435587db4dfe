package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/rules"
)

const (
	// warmUp is how long the replicas have been there before the first request, so that each knows of the others.
	warmUp = 5 * time.Second
	// idle is how long nothing must be asked for the heartbeats of that time to be left out, all but those of the last warmUp: they
	// would say nothing.
	idle = time.Minute
	// memoryOfKeys is of how many keys a replica remembers what it was told and owes.
	memoryOfKeys = 1 << 20
)

// fleet is the replicas of a Sim, each with the engine and the store that a live one has, and the store that they share.
type fleet struct {
	sim      *Sim
	shared   *shared
	replicas []replica
	parts    []float64 // of the traffic, each with those before it
	dealer   *rand.Rand
}

type replica struct {
	engine *rules.Engine
	store  *resilience.Stepped
	local  *memstore.Store
	dealt  int64
}

func (s *Sim) newFleet(set *rules.Set, c Config) (*fleet, error) {
	s.now = c.Start.Add(-warmUp)
	f := &fleet{
		sim: s, shared: &shared{store: s.store, now: s.Now, outages: c.Outages},
		dealer: rand.New(rand.NewPCG(c.Seed, 1)),
	}
	sum := 0.0
	for i := range c.Replicas {
		part := 1.0
		if len(c.Skew) > 0 {
			part = c.Skew[i]
		}
		sum += part
		f.parts = append(f.parts, sum)
		local := memstore.New(&memstore.Config{MaxKeys: c.MaxKeys, SweepEvery: -1, Now: s.Now})
		store, err := resilience.NewStepped(f.shared, &resilience.Config{
			Local: local, Replicas: c.Replicas, ID: fmt.Sprint("replica ", i), MaxKeys: memoryOfKeys,
		}, s.Now, c.Seed<<10+uint64(i))
		if err != nil {
			return nil, errors.Join(err, local.Close(), f.close())
		}
		f.replicas = append(f.replicas, replica{store: store, local: local})
		if f.replicas[i].engine, err = rules.New(store, set, &rules.Config{Now: s.Now}); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	f.until(c.Start)
	return f, nil
}

// until lets the replicas do all that is due up to a moment, each thing at its own.
func (f *fleet) until(at time.Time) {
	for {
		f.leap(at)
		first := f.replicas[0].store
		next := first.Next()
		for i := range f.replicas[1:] {
			if s := f.replicas[i+1].store; s.Next().Before(next) {
				first, next = s, s.Next()
			}
		}
		if next.After(at) {
			return
		}
		if next.After(f.sim.now) {
			f.sim.now = next
		}
		first.Step()
	}
}

// leap passes over a long time in which nothing is asked and nothing happens.
func (f *fleet) leap(at time.Time) {
	if at.Sub(f.sim.now) < idle {
		return
	}
	if o, ok := f.shared.next(f.sim.now); ok && o.From.Before(at) {
		at = o.From
	}
	for i := range f.replicas {
		if st := f.replicas[i].store.Status(); st.State != resilience.Shared || st.Debts > 0 {
			return
		}
	}
	if at = at.Add(-2 * warmUp); at.After(f.sim.now) {
		f.sim.now = at
	}
}

// deal draws the replica that gets the next request.
func (f *fleet) deal() *rules.Engine {
	i := 0
	if n := len(f.parts); n > 1 {
		i = min(sort.SearchFloat64s(f.parts, f.dealer.Float64()*f.parts[n-1]), n-1)
	}
	f.replicas[i].dealt++
	return f.replicas[i].engine
}

func (f *fleet) forgotten() (n int64) {
	for i := range f.replicas {
		n += f.replicas[i].local.Stats().Evicted + f.replicas[i].store.Status().Forgotten
	}
	return n
}

func (f *fleet) close() error {
	var errs []error
	for i := range f.replicas {
		errs = append(errs, f.replicas[i].store.Close())
	}
	return errors.Join(errs...)
}

// Dealt is how many requests each replica got; nil where there are none.
func (s *Sim) Dealt() (requests []int64) {
	if s.fleet == nil {
		return nil
	}
	for i := range s.fleet.replicas {
		requests = append(requests, s.fleet.replicas[i].dealt)
	}
	return requests
}
