package envoy

import (
	"fmt"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/tidegate-go/tidegate"
)

// Unit is a unit of time as the protocol numbers it.
type Unit = ratelimitv3.RateLimitResponse_RateLimit_Unit

// The lengths of the units. They are fixed, as envoyproxy/ratelimit has them: a month is 30 days, a year 365, and a window
// of any begins at a multiple of its length since the Unix epoch, so that weeks begin on Thursday.
var lengths = map[Unit]time.Duration{
	ratelimitv3.RateLimitResponse_RateLimit_SECOND: time.Second,
	ratelimitv3.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	ratelimitv3.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	ratelimitv3.RateLimitResponse_RateLimit_DAY:    24 * time.Hour,
	ratelimitv3.RateLimitResponse_RateLimit_WEEK:   7 * 24 * time.Hour,
	ratelimitv3.RateLimitResponse_RateLimit_MONTH:  30 * 24 * time.Hour,
	ratelimitv3.RateLimitResponse_RateLimit_YEAR:   365 * 24 * time.Hour,
}

const unitNames = "second, minute, hour, day, week, month or year"

// unitNamed returns the unit of the name, in capitals or not.
func unitNamed(name string) (Unit, bool) {
	u := Unit(ratelimitv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)])
	return u, lengths[u] > 0
}

// Algorithms are the names of the ways to count, the default first.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.String()
	}
	return names
}

var algorithms = [...]tidegate.Algorithm{tidegate.FixedWindow, tidegate.TokenBucket, tidegate.SlidingWindow}

// algorithmNamed returns the algorithm of the name; none is the default.
func algorithmNamed(name string) (tidegate.Algorithm, error) {
	if name == "" {
		return algorithms[0], nil
	}
	for _, a := range algorithms {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("envoy: there is no algorithm %q for these limits: write %s", name, enumerate(Algorithms()))
}

// limitOf is the limit of so many requests in so many units.
func limitOf(requests uint32, unit Unit, multiplier uint32, algorithm tidegate.Algorithm) (tidegate.Limit, error) {
	if requests == 0 {
		return tidegate.Limit{Algorithm: tidegate.None}, nil
	}
	length := lengths[unit]
	if length == 0 {
		return tidegate.Limit{}, fmt.Errorf("the unit %v is none: use %s", unit, unitNames)
	}
	const longest = 50 * 365 * 24 * time.Hour
	if time.Duration(multiplier) > longest/length {
		return tidegate.Limit{}, fmt.Errorf("%d times a %s is longer than 50 years: use a smaller unit_multiplier",
			multiplier, strings.ToLower(unit.String()))
	}
	l := tidegate.Limit{Rate: int64(requests), Per: time.Duration(multiplier) * length, Algorithm: algorithm}
	return l.Normalize(), l.Validate()
}
