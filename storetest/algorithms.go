package storetest

import (
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// algorithm is a limit of each kind, for the promises that all of them keep. All hold 20.
type algorithm struct {
	name, limit string
	// other is a smaller limit of the same kind, which holds 14.
	other string
	// fill is the longest that an empty bucket takes to be full again.
	fill time.Duration
}

const capacity = 20 // of every algorithm below

var algorithms = []algorithm{
	{"token bucket", "10/s burst 20", "7/s burst 14", 2 * sec},
	{"leaky bucket", "10/s leaky-bucket queue 19", "7/s leaky-bucket queue 13", 2 * sec},
	{"fixed window", "20/min fixed-window", "14/min fixed-window", time.Minute},
	{"calendar window", "20/day tz Europe/Vienna", "14/day tz Europe/Vienna", 25 * time.Hour},
	{"sliding window", "20/min sliding-window", "14/min sliding-window", 2 * time.Minute},
	{"sliding window in slices", "20/min sliding-window slices 4", "14/min sliding-window slices 4", 75 * sec},
	{"sliding log", "20/min sliding-log", "14/min sliding-log", time.Minute},
	{"warm-up", "20/s burst 20 warmup 8s", "14/s burst 14 warmup 8s", 3 * sec},
	{"permits", "20 concurrent ttl 1m", "14 concurrent ttl 1m", time.Minute},
}

// unqueued returns the limit without a queue, so that only reservations wait.
func (a algorithm) unqueued() string {
	limit, _, _ := strings.Cut(a.limit, " queue")
	return limit
}

// forEach makes a case of each algorithm but those excepted.
func forEach(name, rule string, f func(*trial, algorithm), except ...string) []testCase {
	var cases []testCase
next:
	for _, a := range algorithms {
		for _, e := range except {
			if a.name == e {
				continue next
			}
		}
		cases = append(cases, testCase{name + "/" + a.name, rule, func(x *trial) { f(x, a) }})
	}
	return cases
}

// ready returns a bucket that holds all that it can: one that warms up has begun to.
func (x *trial) ready(limit string) *bucket {
	x.Helper()
	b, _ := x.twins(limit)
	return b
}

// twins returns two that are ready and alike.
func (x *trial) twins(limit string) (b, c *bucket) {
	x.Helper()
	b, c = x.bucket(limit), x.bucket(limit)
	if b.charge.Limit.Warmup > 0 {
		b.take(1)
		x.advance(c.take(1).ResetAfter)
	}
	if d := b.take(0); d.Remaining != d.Limit {
		x.Fatalf("%s: a new bucket: %s", b, say(d))
	}
	return b, c
}

// resolution returns the tick of a limit.
func (x *trial) resolution(l *tidegate.Limit) time.Duration {
	x.Helper()
	tick, err := l.Resolution()
	if err != nil {
		x.Fatalf("the suite is wrong: %v", err)
	}
	return tick
}
