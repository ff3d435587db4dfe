package sim_test

import (
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/sim"
)

// Three replicas, of which one gets most of the traffic, and a store that is away for ten seconds.
func ExampleNew_outage() {
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: api, limit: 100/s}\n"))
	if err != nil {
		panic(err)
	}
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	s, err := sim.New(set, &sim.Config{
		Skew:    []float64{60, 25, 15},
		Outages: []sim.Outage{{From: start.Add(10 * time.Second), To: start.Add(20 * time.Second)}},
		Start:   start,
	})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	admitted := map[tidegate.Source]int{}
	for at := start; at.Before(start.Add(30 * time.Second)); at = at.Add(5 * time.Millisecond) { // twice the limit
		d, err := s.Decide(at, tidegate.AttributeMap{}, 1)
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			admitted[d.Source]++
		}
	}
	fmt.Println("without the store, at most the limit:", admitted[tidegate.SourceFallback] <= 1000)
	fmt.Println("and most of it:", admitted[tidegate.SourceFallback] > 800)
	// Output:
	// without the store, at most the limit: true
	// and most of it: true
}
