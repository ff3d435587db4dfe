package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A Load says when requests are sent, and which replica gets how many.
type Load string

// The loads.
const (
	// Steady is as many a second as are offered, evenly spaced.
	Steady Load = "steady"
	// Pulse is the same for two seconds, and nothing in the third.
	Pulse Load = "pulse"
	// Legal is 95 % of what the limit allows, nearly all of it at the first replica.
	Legal Load = "legal"
)

// Loads are all of them.
var Loads = []Load{Steady, Pulse, Legal}

const (
	pulseOn, pulseOff = 2 * time.Second, time.Second
	legalPart         = 0.95
	legalFirst        = 96 // percent at the first replica; the others have the rest
)

// schedule says when the requests of a run are due, and where they go.
type schedule struct {
	perSecond float64
	pulsing   bool
	until     []float64 // the weights of the replicas, added up
	duration  time.Duration
}

// newSchedule makes the schedule of a load. Offered and skew are left alone by [Legal], which has its own.
func newSchedule(l Load, offered float64, skew []float64, limit tidegate.Limit, duration time.Duration) *schedule {
	s := &schedule{perSecond: offered, pulsing: l == Pulse, duration: duration}
	if l == Legal {
		s.perSecond = legalPart * perSecond(limit)
		skew = legalSkew(len(skew))
	}
	sum := 0.0
	for _, w := range skew {
		sum += w
		s.until = append(s.until, sum)
	}
	return s
}

// perSecond is a limit's rate.
func perSecond(l tidegate.Limit) float64 { return float64(l.Rate) / l.Per.Seconds() }

func legalSkew(n int) []float64 {
	skew := make([]float64, n)
	for i := range skew {
		skew[i] = float64(100-legalFirst) / float64(max(1, n-1))
	}
	skew[0] = legalFirst
	return skew
}

// due is when the request of a number is sent, from the start; ok is false from the end of the run on.
func (s *schedule) due(i int) (at time.Duration, ok bool) {
	at = time.Duration(float64(i) / s.perSecond * float64(time.Second))
	if s.pulsing {
		at += at / pulseOn * pulseOff //nolint:durationcheck // as many pauses as there were pulses
	}
	return at, at < s.duration
}

// replicas returns a function that chooses the replica of each request in turn: at random by the weights, as demand is, and
// the same in each run, so that scenarios are compared under one load.
func (s *schedule) replicas() func() int {
	r := rand.New(rand.NewPCG(1, 2))
	return func() int {
		x := r.Float64() * s.until[len(s.until)-1]
		for i, until := range s.until {
			if x < until {
				return i
			}
		}
		return len(s.until) - 1
	}
}

// busiest is how many requests a second the replica gets in the time that it gets any.
func (s *schedule) busiest(replica int) float64 {
	before := 0.0
	if replica > 0 {
		before = s.until[replica-1]
	}
	return s.perSecond * (s.until[replica] - before) / s.until[len(s.until)-1]
}

// ParseLoad reads a load's name.
func ParseLoad(name string) (Load, error) {
	for _, l := range Loads {
		if string(l) == name {
			return l, nil
		}
	}
	return "", fmt.Errorf("there is no load %q: write steady, pulse, legal or all", name)
}
