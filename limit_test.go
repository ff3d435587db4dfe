package tidegate_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidegate-go/tidegate"
)

const (
	year50 = 50 * 365 * 24 * time.Hour // the longest period
	exact  = int64(1)<<53 - 1          // the largest integer that Lua has with all below it
)

// limit makes a limit in code from one that is good and a change that may spoil it.
func limit(text string, change func(l *tidegate.Limit)) tidegate.Limit {
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		panic(err)
	}
	change(&l)
	return l
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name  string
		limit tidegate.Limit
		want  string // in the error; "" for a limit that is good
	}{
		{"the zero limit", tidegate.Limit{}, "the rate is 0"},

		// Rate.
		{"negative rate", tidegate.Limit{Rate: -1, Per: time.Second}, "the rate is -1"},
		{"smallest rate", tidegate.Limit{Rate: math.MinInt64, Per: time.Second}, "the rate is -9223372036854775808"},
		{"rate of a window", tidegate.Limit{Per: time.Second, Algorithm: tidegate.FixedWindow}, "the rate is 0"},
		{"rate of a calendar", tidegate.Limit{Calendar: tidegate.CalendarDay, Algorithm: tidegate.FixedWindow}, "the rate is 0"},
		{"largest rate", tidegate.Limit{Rate: math.MaxInt64, Per: time.Second}, "too large"},
		{"largest fixed", tidegate.Limit{Rate: exact / 2, Per: time.Second, Algorithm: tidegate.FixedWindow}, ""},
		{"one more", tidegate.Limit{Rate: exact/2 + 1, Per: time.Second, Algorithm: tidegate.FixedWindow}, "too large"},
		{"largest calendar", tidegate.Limit{Rate: exact / 2, Calendar: tidegate.CalendarYear, Algorithm: tidegate.FixedWindow}, ""},
		{"one more", tidegate.Limit{Rate: exact/2 + 1, Calendar: tidegate.CalendarYear, Algorithm: tidegate.FixedWindow}, "too large"},
		{"largest sliding", tidegate.Limit{Rate: exact / 4 / 1000, Per: time.Second, Algorithm: tidegate.SlidingWindow}, ""},
		{"one more", tidegate.Limit{Rate: exact/4/1000 + 1, Per: time.Second, Algorithm: tidegate.SlidingWindow}, "too large"},
		{"largest log", tidegate.Limit{Rate: 10_000, Per: time.Second, Algorithm: tidegate.SlidingLog}, ""},
		{"one more", tidegate.Limit{Rate: 10_001, Per: time.Second, Algorithm: tidegate.SlidingLog}, "10001 entries"},
		{"most permits", tidegate.Limit{Rate: 10_000, Algorithm: tidegate.Concurrency}, ""},
		{"one more", tidegate.Limit{Rate: 10_001, Algorithm: tidegate.Concurrency}, "10001 permits"},
		{"no permits", tidegate.Limit{Algorithm: tidegate.Concurrency}, "0 permits"},
		{"negative permits", tidegate.Limit{Rate: -5, Algorithm: tidegate.Concurrency}, "-5 permits"},

		// Per.
		{"no period", tidegate.Limit{Rate: 1}, "no period"},
		{"negative period", tidegate.Limit{Rate: 1, Per: -time.Second}, "a period of -1s"},
		{"shortest period", tidegate.Limit{Rate: 1, Per: time.Millisecond}, ""},
		{"one less", tidegate.Limit{Rate: 1, Per: time.Millisecond - time.Microsecond}, "a period of 999µs"},
		{"half a microsecond", tidegate.Limit{Rate: 1, Per: time.Second + 500}, "a period of 1.0000005s"},
		{"longest period", tidegate.Limit{Rate: 1, Per: year50}, ""},
		{"one more", tidegate.Limit{Rate: 1, Per: year50 + time.Microsecond}, "a period of 438000h0m0.000001s"},
		{"longest fixed", tidegate.Limit{Rate: 1, Per: year50, Algorithm: tidegate.FixedWindow}, ""},
		{"one more", tidegate.Limit{Rate: 1, Per: year50 + time.Microsecond, Algorithm: tidegate.FixedWindow}, "a period of"},
		{"the largest", tidegate.Limit{Rate: 1, Per: math.MaxInt64}, "a period of"},
		{"period of permits", tidegate.Limit{Rate: 1, Per: time.Second, Algorithm: tidegate.Concurrency}, "a period has no meaning for concurrent"},
		{"period of none", tidegate.Limit{Per: time.Second, Algorithm: tidegate.None}, "a period has no meaning for none"},
		{"rate of none", tidegate.Limit{Rate: 1, Algorithm: tidegate.None}, "a rate has no meaning for none"},
		{"rate of unlimited", tidegate.Limit{Rate: 1, Algorithm: tidegate.Unlimited}, "a rate has no meaning for unlimited"},

		// Calendar and Zone.
		{"calendar", tidegate.Limit{Rate: 1, Calendar: tidegate.CalendarMonth, Algorithm: tidegate.FixedWindow}, ""},
		{"calendar and zone", tidegate.Limit{Rate: 1, Calendar: tidegate.CalendarDay, Zone: "Asia/Shanghai", Algorithm: tidegate.FixedWindow}, ""},
		{"calendar and period", limit("1/month", func(l *tidegate.Limit) { l.Per = time.Second }), "both a period of 1s and the calendar unit month"},
		{"calendar of a bucket", tidegate.Limit{Rate: 1, Calendar: tidegate.CalendarMonth}, "a calendar month has no constant length"},
		{"calendar of a log", tidegate.Limit{Rate: 1, Calendar: tidegate.CalendarYear, Algorithm: tidegate.SlidingLog}, "so sliding-log cannot count it"},
		{"unknown calendar", limit("1/month", func(l *tidegate.Limit) { l.Calendar = 9 }), "unknown calendar unit 9"},
		{"zone without a calendar", tidegate.Limit{Rate: 1, Per: time.Hour, Zone: "UTC"}, "a time zone without a calendar unit"},
		{"zone of a window", tidegate.Limit{Rate: 1, Per: time.Hour, Zone: "UTC", Algorithm: tidegate.FixedWindow}, "a time zone without a calendar unit"},
		{"unknown zone", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "Mars/Olympus" }), `unknown time zone "Mars/Olympus"`},
		{"a path as a zone", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "../../etc/passwd" }), "unknown time zone"},
		{"an absolute path as a zone", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "/etc/passwd" }), "unknown time zone"},
		{"the machine's zone", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "Local" }), `the time zone "Local"`},
		{"its name on disk", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "localtime" }), `the time zone "localtime"`},
		{"a zone with leap seconds", limit("1/day tz UTC", func(l *tidegate.Limit) { l.Zone = "right/Europe/Vienna" }), `the time zone "right/Europe/Vienna"`},

		// Burst.
		{"negative burst", tidegate.Limit{Rate: 1, Per: time.Second, Burst: -1}, "a burst of -1"},
		{"largest burst", tidegate.Limit{Rate: 1, Per: time.Second, Burst: math.MaxInt64}, "too large"},
		{"more than 50 years", tidegate.Limit{Rate: 1, Per: year50, Burst: 2}, "2 tokens would take more than 50 years"},
		{"50 years", tidegate.Limit{Rate: 2, Per: year50, Burst: 2}, ""},
		{"burst of a leaky bucket", tidegate.Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: tidegate.LeakyBucket}, "burst has no meaning for leaky-bucket"},
		{"burst of a window", tidegate.Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: tidegate.FixedWindow}, "burst has no meaning for fixed-window"},
		{"burst of a sliding window", tidegate.Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: tidegate.SlidingWindow}, "burst has no meaning for sliding-window"},
		{"burst of a log", tidegate.Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: tidegate.SlidingLog}, "burst has no meaning for sliding-log"},
		{"burst of permits", tidegate.Limit{Rate: 1, Burst: 1, Algorithm: tidegate.Concurrency}, "burst has no meaning for concurrent"},
		{"burst of none", tidegate.Limit{Burst: 1, Algorithm: tidegate.None}, "burst has no meaning for none"},

		// Queue.
		{"queue", tidegate.Limit{Rate: 1, Per: time.Second, Queue: 5, Algorithm: tidegate.LeakyBucket}, ""},
		{"negative queue", tidegate.Limit{Rate: 1, Per: time.Second, Queue: -1, Algorithm: tidegate.LeakyBucket}, "a queue of -1"},
		{"largest queue", tidegate.Limit{Rate: 10, Per: time.Second, Queue: math.MaxInt64, Algorithm: tidegate.LeakyBucket}, "too large"},
		{"queue of a bucket", tidegate.Limit{Rate: 1, Per: time.Second, Queue: 1}, "queue has no meaning for token-bucket"},

		// Slices.
		{"most slices", tidegate.Limit{Rate: 1, Per: time.Second, Slices: 100, Algorithm: tidegate.SlidingWindow}, ""},
		{"one more", tidegate.Limit{Rate: 1, Per: time.Second, Slices: 101, Algorithm: tidegate.SlidingWindow}, "101 slices"},
		{"negative slices", tidegate.Limit{Rate: 1, Per: time.Second, Slices: -1, Algorithm: tidegate.SlidingWindow}, "-1 slices"},
		{"slices that do not divide", tidegate.Limit{Rate: 1, Per: time.Second, Slices: 7, Algorithm: tidegate.SlidingWindow}, "1s cannot be cut into 7 equal slices"},
		{"slices of a bucket", tidegate.Limit{Rate: 1, Per: time.Second, Slices: 1}, "slices has no meaning for token-bucket"},

		// Warmup.
		{"warmup", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 8 * time.Second}, ""},
		{"negative warmup", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: -8 * time.Second}, "a warmup of -8s"},
		{"shortest warmup", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 8 * time.Microsecond}, ""},
		{"not in eighths", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 9 * time.Microsecond}, "a warmup of 9µs"},
		{"not in microseconds", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 8*time.Microsecond + 1}, "a warmup of 8.001µs"},
		{"longest warmup", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 365 * 24 * time.Hour}, ""},
		{"one more", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 365*24*time.Hour + 8*time.Microsecond}, "a warmup of 8760h0m0.000008s"},
		{"warmup of a window", tidegate.Limit{Rate: 1, Per: time.Second, Warmup: 8 * time.Second, Algorithm: tidegate.FixedWindow}, "warmup has no meaning for fixed-window"},

		// TTL.
		{"shortest ttl", tidegate.Limit{Rate: 1, TTL: time.Millisecond, Algorithm: tidegate.Concurrency}, ""},
		{"one less", tidegate.Limit{Rate: 1, TTL: time.Millisecond - 1, Algorithm: tidegate.Concurrency}, "a ttl of 999.999µs"},
		{"longest ttl", tidegate.Limit{Rate: 1, TTL: 24 * time.Hour, Algorithm: tidegate.Concurrency}, ""},
		{"one more", tidegate.Limit{Rate: 1, TTL: 24*time.Hour + time.Microsecond, Algorithm: tidegate.Concurrency}, "a ttl of 24h0m0.000001s"},
		{"negative ttl", tidegate.Limit{Rate: 1, TTL: -time.Second, Algorithm: tidegate.Concurrency}, "a ttl of -1s"},
		{"not in microseconds", tidegate.Limit{Rate: 1, TTL: time.Second + 1, Algorithm: tidegate.Concurrency}, "a ttl of 1.000000001s"},
		{"ttl of a bucket", tidegate.Limit{Rate: 1, Per: time.Second, TTL: time.Second}, "ttl has no meaning for token-bucket"},

		{"none", tidegate.Limit{Algorithm: tidegate.None}, ""},
		{"unlimited", tidegate.Limit{Algorithm: tidegate.Unlimited}, ""},
		{"unknown algorithm", tidegate.Limit{Rate: 1, Per: time.Second, Algorithm: 99}, "unknown algorithm 99"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkProblem(t, test.limit, test.want)
		})
	}
}

// checkProblem holds what is wrong with a limit to hold the words; "" is for a limit that is good.
func checkProblem(t *testing.T, l tidegate.Limit, want string) {
	t.Helper()
	err := l.Validate()
	if want == "" {
		if err != nil {
			t.Errorf("%+v: %v", plain(l), err)
		}
		return
	}
	if err == nil {
		t.Fatalf("%+v is accepted", plain(l))
	}
	var le *tidegate.LimitError
	switch {
	case !errors.As(err, &le):
		t.Errorf("the error is a %T", err)
	case !strings.Contains(le.Problem, want):
		t.Errorf("the problem is %q, not %q", le.Problem, want)
	case le.Hint == "":
		t.Errorf("%q: no hint", le.Problem)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%q: more than a line", err)
	}
}

// The tick is the smallest in which everything stays below 2^53. Some are worked out here by hand: four times the largest
// of rate, burst and queue, times the units that a token costs: the period in ticks, reduced by the rate.
func TestResolution(t *testing.T) {
	tests := []struct {
		limit string
		want  time.Duration // 0: it cannot be counted exactly
	}{
		{"10/s burst 20", time.Microsecond},
		{"600/s burst 100", time.Microsecond},
		{"1000000/s burst 1000000", time.Microsecond}, // one unit a token
		{"1000000000/s burst 1000000000", time.Microsecond},
		{"10/day burst 10", time.Microsecond},             // 8.64e9 units a token, 3.5e11 in all
		{"7/day burst 7", time.Microsecond},               // nothing to reduce: 8.64e10 × 28 = 2.4e12
		{"1/18250day", time.Microsecond},                  // 1.6e15 × 4 = 6.3e15, just below 9.007e15
		{"7/18250day", 10 * time.Microsecond},             // nothing to reduce: 1.6e15 × 28 = 4.4e16
		{"999/18250day", 100 * time.Microsecond},          // 1.6e15 / 27 × 3996 = 2.3e17
		{"10007/18250day burst 1", 10 * time.Millisecond}, // a prime: 1.6e15 × 40028 = 6.3e19
		{"100/year fixed-window", time.Microsecond},
		{"1000000/day fixed-window", time.Microsecond},
		{"10/s leaky-bucket queue 1000000", time.Microsecond},
		{"100/min sliding-window", time.Microsecond},
		{"1000000/day sliding-window", 100 * time.Microsecond},          // 8.64e10 × 4e6 = 3.5e17
		{"1000000/day sliding-window slices 24", 10 * time.Microsecond}, // a 24th of it: 1.4e16
		{"2251799813685/s sliding-window", time.Millisecond},            // 1000 ticks of 1 ms
		{"2251799813686/s sliding-window", 0},
		{"10000/week sliding-log", time.Microsecond},
		{"100/s warmup 16s", time.Microsecond}, // 12 times finer: 1e4 × 12 × 400 = 4.8e7
		{"20 concurrent", time.Microsecond},
		{"none", time.Microsecond},
		{"unlimited", time.Microsecond},
	}
	for _, test := range tests {
		l, err := tidegate.ParseLimit(test.limit)
		if test.want == 0 {
			if err == nil {
				t.Errorf("%s is accepted", test.limit)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := l.Resolution()
		if err != nil || got != test.want {
			t.Errorf("%s: the tick is %v, want %v (%v)", test.limit, got, test.want, err)
		}
	}
}

// TestResolutionIsTheSmallest works the tick out again, from its definition and without bounds on the numbers.
func TestResolutionIsTheSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		per := int64(l.Per / time.Microsecond)
		var ticks []int64
		for tick := int64(1); tick == 1 || tick <= per/1000; tick *= 10 {
			ticks = append(ticks, tick)
		}
		want := time.Duration(0)
		for _, tick := range ticks {
			if fits(l, per, tick) {
				want = time.Duration(tick) * time.Microsecond
				break
			}
		}
		got, err := l.Resolution()
		if err != nil {
			got = 0
		}
		if got != want {
			t.Fatalf("%+v: the tick is %v (%v), want %v", plain(l), got, err, want)
		}
	})
}

// fits reports whether every number of the limit is below 2^53 in ticks of so many microseconds.
func fits(l tidegate.Limit, per, tick int64) bool {
	l = l.Normalize()
	number := big.NewInt
	below := func(factors ...*big.Int) bool {
		product := number(1)
		for _, f := range factors {
			product.Mul(product, f)
		}
		return product.Cmp(number(exact)) <= 0
	}
	switch l.Algorithm {
	case tidegate.FixedWindow, tidegate.Concurrency, tidegate.SlidingLog, tidegate.None, tidegate.Unlimited:
		return tick == 1
	case tidegate.SlidingWindow:
		slice := per / int64(l.Slices)
		return slice%tick == 0 && below(number(4), number(l.Rate), number(slice/tick))
	case tidegate.TokenBucket, tidegate.LeakyBucket:
	}
	if per%tick != 0 {
		return false
	}
	most := number(max(l.Rate, l.Burst, l.Queue+1))
	fill := new(big.Int).Mul(most, number(per))
	if fill.Div(fill, number(l.Rate)).Cmp(number(int64(year50/time.Microsecond))) > 0 {
		return false
	}
	cost := new(big.Int).Div(number(per/tick), new(big.Int).GCD(nil, nil, number(per/tick), number(l.Rate)))
	if l.Warmup > 0 {
		if int64(l.Warmup/time.Microsecond)%(8*tick) != 0 {
			return false
		}
		cost.Mul(cost, number(12))
	}
	return below(number(4), most, cost)
}

// drawLimit draws a limit whose fields are each within their bounds, also one that cannot be counted exactly.
func drawLimit(t *rapid.T) tidegate.Limit {
	per := func() time.Duration {
		unit := rapid.SampledFrom([]time.Duration{
			time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
		}).Draw(t, "unit")
		return unit * time.Duration(logarithmic(t, "count", int64(max(1, time.Millisecond/unit)), int64(year50/unit)))
	}
	l := tidegate.Limit{Algorithm: rapid.SampledFrom([]tidegate.Algorithm{
		tidegate.TokenBucket, tidegate.TokenBucket, tidegate.LeakyBucket, tidegate.FixedWindow, tidegate.SlidingWindow,
		tidegate.SlidingLog, tidegate.Concurrency, tidegate.None, tidegate.Unlimited,
	}).Draw(t, "algorithm")}
	switch l.Algorithm {
	case tidegate.None, tidegate.Unlimited:
	case tidegate.Concurrency:
		l.Rate = logarithmic(t, "rate", 1, 10_000)
		l.TTL = time.Duration(logarithmic(t, "ttl", 1000, 24*3600*1e6)) * time.Microsecond
	case tidegate.SlidingLog:
		l.Rate, l.Per = logarithmic(t, "rate", 1, 10_000), per()
	case tidegate.FixedWindow:
		l.Rate = logarithmic(t, "rate", 1, exact/2)
		if rapid.Bool().Draw(t, "calendar") {
			l.Calendar = rapid.SampledFrom([]tidegate.Calendar{
				tidegate.CalendarDay, tidegate.CalendarWeek, tidegate.CalendarMonth, tidegate.CalendarYear,
			}).Draw(t, "unit")
			l.Zone = rapid.SampledFrom([]string{"", "UTC", "Europe/Vienna", "Asia/Shanghai", "America/Argentina/Buenos_Aires", "Etc/GMT+5"}).Draw(t, "zone")
			break
		}
		l.Per = per()
	case tidegate.SlidingWindow:
		l.Slices = rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 10, 12, 60, 100}).Draw(t, "slices")
		l.Rate, l.Per = logarithmic(t, "rate", 1, exact/4), per()
		l.Per -= l.Per % (time.Duration(max(1, l.Slices)) * time.Microsecond)
		l.Per = max(l.Per, time.Millisecond*time.Duration(max(1, l.Slices)))
	case tidegate.LeakyBucket:
		l.Rate, l.Per = logarithmic(t, "rate", 1, exact/4), per()
		l.Queue = logarithmic(t, "queue", 1, exact/4) - 1
	case tidegate.TokenBucket:
		l.Rate, l.Per = logarithmic(t, "rate", 1, exact/4), per()
		l.Burst = logarithmic(t, "burst", 1, exact/4) - 1
		if rapid.Bool().Draw(t, "warm") {
			l.Warmup = 8 * time.Microsecond * time.Duration(logarithmic(t, "warmup", 1, 365*24*3600*1e6/8))
		}
	}
	return l
}

// logarithmic draws a number that is as likely to have any number of bits, and often a round one.
func logarithmic(t *rapid.T, label string, least, most int64) int64 {
	n := rapid.Int64Range(0, 1<<rapid.IntRange(0, 53).Draw(t, label+" bits")).Draw(t, label)
	if rapid.Bool().Draw(t, label+" round") {
		for ten := int64(10); ten < n; ten *= 10 {
			n -= n % ten
		}
	}
	return least + n%(most-least+1)
}

// What cannot be counted exactly is refused; it is never rounded. Round numbers share factors with the period, and go
// much further than prime ones.
func TestInexactIsRefused(t *testing.T) {
	for _, test := range []struct {
		limit string
		good  bool
	}{
		{"1000000000000/s", true},
		{"999999999989/s", true},   // a prime; the tick is 1 ms, as long as a thousandth of the period
		{"2251799813685/s", true},  // × 4 × 1000 ticks is just below 2^53
		{"2251799813687/s", false}, // and the next one that shares no factor with 1000 is not
		{"10000000/s burst 2251799813685247", true},
		{"10000000/s burst 2251799813685248", false},
		{"7/1576799999999990us", true},  // × 28 is below 2^53 in ticks of 10 µs, of which the period is whole
		{"7/1576799999999999us", false}, // and this one is not
		{"1/h burst 438000", true},      // fifty years of hours
		{"1/h burst 438001", false},
		{"1/s leaky-bucket queue 1576799999", true}, // 50 years of seconds, with the one that is served
		{"1/s leaky-bucket queue 1576800000", false},
		{"10/s leaky-bucket queue 9223372036854775807", false}, // where one is added
	} {
		_, err := tidegate.ParseLimit(test.limit)
		if good := err == nil; good != test.good {
			t.Errorf("%s: %v", test.limit, err)
		}
	}
}

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ limit, want tidegate.Limit }{
		{tidegate.Limit{Rate: 5, Per: time.Second}, tidegate.Limit{Rate: 5, Per: time.Second, Burst: 5}},
		{
			tidegate.Limit{Rate: 5, Calendar: tidegate.CalendarDay, Algorithm: tidegate.FixedWindow},
			tidegate.Limit{Rate: 5, Calendar: tidegate.CalendarDay, Algorithm: tidegate.FixedWindow, Zone: "UTC"},
		},
		{
			tidegate.Limit{Rate: 5, Per: time.Second, Algorithm: tidegate.SlidingWindow},
			tidegate.Limit{Rate: 5, Per: time.Second, Algorithm: tidegate.SlidingWindow, Slices: 1},
		},
		{
			tidegate.Limit{Rate: 5, Algorithm: tidegate.Concurrency},
			tidegate.Limit{Rate: 5, Algorithm: tidegate.Concurrency, TTL: time.Minute},
		},
		{
			tidegate.Limit{Rate: 5, Per: time.Second, Lease: time.Second, Shards: 1},
			tidegate.Limit{Rate: 5, Per: time.Second, Lease: time.Second, Burst: 5},
		},
		{
			tidegate.Limit{Rate: 5, Per: time.Second, Algorithm: tidegate.FixedWindow, Shards: 1},
			tidegate.Limit{Rate: 5, Per: time.Second, Algorithm: tidegate.FixedWindow},
		},
	} {
		got := test.limit.Normalize()
		if got != test.want {
			t.Errorf("%+v becomes %+v, want %+v", plain(test.limit), plain(got), plain(test.want))
		}
		if again := got.Normalize(); again != got {
			t.Errorf("%+v becomes %+v the second time", plain(got), plain(again))
		}
	}
}

// Capacity is what Remaining counts down from.
func TestCapacity(t *testing.T) {
	for text, want := range map[string]int64{
		"10/s":                      10,
		"10/s burst 20":             20,
		"10/s leaky-bucket":         1,
		"10/s leaky-bucket queue 5": 6,
		"10/min fixed-window":       10,
		"10/month":                  10,
		"10/min sliding-window":     10,
		"10/min sliding-log":        10,
		"7 concurrent":              7,
		"none":                      0,
		"unlimited":                 tidegate.NoLimit,
		"100/s burst 50 shards 4":   50, // the whole's
		"10/month shards 3":         10,
		"100/s lease 50ms":          100,
	} {
		l, err := tidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Capacity(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := (tidegate.Limit{Rate: 10, Per: time.Second}).Capacity(); got != 10 {
		t.Errorf("a limit without a burst that is not normalized: %d, want 10", got)
	}
}

// The names are those of the grammar, and a value of no name has one that says so.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		tidegate.TokenBucket.String():   "token-bucket",
		tidegate.Unlimited.String():     "unlimited",
		tidegate.Algorithm(77).String(): "Algorithm(77)",
		tidegate.NoCalendar.String():    "",
		tidegate.CalendarYear.String():  "year",
		tidegate.Calendar(77).String():  "Calendar(77)",
		tidegate.SourceShadow.String():  "shadow",
		tidegate.Source(77).String():    "Source(77)",

		tidegate.FailurePolicy{}.String():                           "local",
		tidegate.FailurePolicy{Share: 0.25}.String():                "local 0.25",
		tidegate.FailurePolicy{Action: tidegate.FailAllow}.String(): "allow",
		tidegate.FailurePolicy{Action: tidegate.FailDeny}.String():  "deny",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
