package downstream_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate/downstream"
)

// A breaker around a database that goes away and comes back.
func Example() {
	clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // leave Now out for the real one
	b, err := downstream.New(&downstream.Config{
		FailureRatio:  0.5,
		MinimumCalls:  10,
		OpenTime:      5 * time.Second,
		HalfOpenCalls: 1,
		Ramp:          10 * time.Second,
		Now:           func() time.Time { return clock },
		Changed:       func(c downstream.Change) { fmt.Println(c) },
	})
	if err != nil {
		panic(err)
	}
	ask := func(query func() error) {
		call, retryAfter := b.Allow()
		if !call.OK() {
			fmt.Println("refused, retry after", retryAfter)
			return
		}
		call.Record(20*time.Millisecond, downstream.OutcomeOf(query()))
	}

	for range 10 {
		ask(func() error { return errors.New("connection refused") })
	}
	ask(func() error { return nil })
	clock = clock.Add(5 * time.Second)
	ask(func() error { return nil })
	clock = clock.Add(5 * time.Second)
	fmt.Printf("left to linked rules: %.0f%%\n", 100*b.Factor(0.2))
	clock = clock.Add(5 * time.Second)
	ask(func() error { return nil })
	// Output:
	// closed → open after 0s: 10 of 10, failures
	// refused, retry after 5s
	// open → half-open after 5s
	// half-open → ramping after 0s
	// left to linked rules: 60%
	// ramping → closed after 10s
}
