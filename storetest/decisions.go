package storetest

import (
	"math"
	"time"
)

// scenario is a bucket and what happens to it: one row a take.
type scenario struct {
	name  string
	limit string
	rule  string
	takes []row
}

// row is a take: when after the start, what it costs, and the whole decision as say writes it.
type row struct {
	at   time.Duration
	cost int64
	want string
}

const (
	ruleTimes = "RetryAfter and ResetAfter are exact to the tick of the limit, and Remaining is the largest cost that would pass"
	ruleQueue = "a leaky bucket spaces takes evenly and lets Queue of them wait, each as long as its Delay says"
	ruleFixed = "a fixed window without a calendar begins at a multiple of its length since the Unix epoch"
	ruleSlide = "a sliding window counts its newest slices in full and the oldest by the part that is still inside"
	ruleLog   = "a sliding log forgets a take when it is as old as the window is long, and not before"
	ruleWarm  = "a cold bucket is empty, and its rate climbs in eight equal steps from a third"
)

var scenarios = []scenario{
	{"token bucket", "10/s burst 20", ruleTimes, []row{
		{0, 1, "yes 19/20 reset 100ms"},
		{0, 19, "yes 0/20 reset 2s"},
		{0, 1, "no 0/20 retry 100ms reset 2s"},
		{0, 20, "no 0/20 retry 2s reset 2s"},
		{99999 * us, 1, "no 0/20 retry 1µs reset 1.900001s"},
		{100 * ms, 1, "yes 0/20 reset 2s"},
		{250 * ms, 0, "yes 1/20 reset 1.85s"},
		{250 * ms, 2, "no 1/20 retry 50ms reset 1.85s"},
		{300 * ms, 2, "yes 0/20 reset 2s"},
		{2300*ms - us, 0, "yes 19/20 reset 1µs"},
		{2300 * ms, 0, "yes 20/20"},
		{time.Hour, 20, "yes 0/20 reset 2s"},
		{time.Hour, 21, "no 0/20 retry never reset 2s"},
	}},
	{"token bucket of a third", "3/s burst 2", ruleTimes, []row{
		{0, 2, "yes 0/2 reset 666.667ms"},
		{0, 1, "no 0/2 retry 333.334ms reset 666.667ms"},
		{333333 * us, 1, "no 0/2 retry 1µs reset 333.334ms"},
		{333334 * us, 1, "yes 0/2 reset 666.666ms"}, // 2 thirds of a unit were too much and are not lost
		{1000 * ms, 2, "yes 0/2 reset 666.667ms"},
	}},
	{"slow token bucket", "10/day burst 10", ruleTimes, []row{
		{0, 10, "yes 0/10 reset 24h0m0s"},
		{2 * time.Minute, 1, "no 0/10 retry 2h22m0s reset 23h58m0s"},
		{10 * time.Minute, 1, "no 0/10 retry 2h14m0s reset 23h50m0s"},
		{2*time.Hour + 24*time.Minute, 1, "yes 0/10 reset 24h0m0s"},
	}},
	{"leaky bucket", "10/s leaky-bucket", ruleQueue, []row{
		{0, 1, "yes 0/1 reset 100ms"},
		{0, 1, "no 0/1 retry 100ms reset 100ms"},
		{100*ms - us, 1, "no 0/1 retry 1µs reset 1µs"},
		{100 * ms, 1, "yes 0/1 reset 100ms"},
		{250 * ms, 1, "yes 0/1 reset 100ms"},
		{250 * ms, 2, "no 0/1 retry never reset 100ms"},
	}},
	{"leaky bucket with a queue", "10/s leaky-bucket queue 3", ruleQueue, []row{
		{0, 1, "yes 3/4 reset 100ms"},
		{0, 1, "yes 2/4 delay 100ms reset 200ms"},
		{0, 1, "yes 1/4 delay 200ms reset 300ms"},
		{0, 1, "yes 0/4 delay 300ms reset 400ms"},
		{0, 1, "no 0/4 retry 100ms reset 400ms"},
		{100*ms - us, 1, "no 0/4 retry 1µs reset 300.001ms"},
		{100 * ms, 1, "yes 0/4 delay 300ms reset 400ms"},
		{200 * ms, 2, "no 1/4 retry 100ms reset 300ms"},
		{300 * ms, 2, "yes 0/4 delay 300ms reset 400ms"},
		{time.Hour, 4, "yes 0/4 delay 300ms reset 400ms"},
		{time.Hour, 5, "no 0/4 retry never reset 400ms"},
	}},
	{"fixed window", "5/min fixed-window", ruleFixed, []row{
		{30 * sec, 3, "yes 2/5 reset 30s"},
		{30 * sec, 3, "no 2/5 retry 30s reset 30s"},
		{60*sec - us, 2, "yes 0/5 reset 1µs"},
		{60*sec - us, 1, "no 0/5 retry 1µs reset 1µs"},
		{60 * sec, 5, "yes 0/5 reset 1m0s"},
		{90 * sec, 1, "no 0/5 retry 30s reset 30s"},
		{120 * sec, 0, "yes 5/5"},
		{time.Hour, 6, "no 5/5 retry never"},
	}},
	{"fixed window of an odd length", "5/7s fixed-window", ruleFixed, []row{
		{0, 5, "yes 0/5 reset 4s"}, // the start is 4102704000 s after the epoch: 3 more than a multiple of 7
		{4*sec - us, 1, "no 0/5 retry 1µs reset 1µs"},
		{4 * sec, 1, "yes 4/5 reset 7s"},
	}},
	{"sliding window", "10/min sliding-window", ruleSlide, []row{
		{0, 10, "yes 0/10 reset 2m0s"},
		{30 * sec, 1, "no 0/10 retry 36s reset 1m30s"},
		{66*sec - us, 1, "no 0/10 retry 1µs reset 54.000001s"},
		{66 * sec, 1, "yes 0/10 reset 1m54s"},
		{90 * sec, 5, "no 4/10 retry 6s reset 1m30s"},
		{90 * sec, 4, "yes 0/10 reset 1m30s"},
		{180*sec - us, 0, "yes 9/10 reset 1µs"},
		{180 * sec, 0, "yes 10/10"},
	}},
	{"sliding window in slices", "60/min sliding-window slices 6", ruleSlide, []row{
		{0, 30, "yes 30/60 reset 1m10s"},
		{15 * sec, 30, "yes 0/60 reset 1m5s"},
		{59 * sec, 1, "no 0/60 retry 1.333334s reset 21s"}, // a third of a second into the seventh slice, rounded up
		{61 * sec, 4, "no 3/60 retry 333.334ms reset 19s"},
		{61 * sec, 3, "yes 0/60 reset 1m9s"},
		{70 * sec, 27, "yes 0/60 reset 1m10s"},
		{75 * sec, 15, "yes 0/60 reset 1m5s"},
	}},
	{"sliding log", "3/min sliding-log", ruleLog, []row{
		{1 * sec, 1, "yes 2/3 reset 1m0s"},
		{2 * sec, 2, "yes 0/3 reset 1m0s"},
		{20 * sec, 1, "no 0/3 retry 41s reset 42s"},
		{20 * sec, 2, "no 0/3 retry 42s reset 42s"},
		{61*sec - us, 1, "no 0/3 retry 1µs reset 1.000001s"},
		{61 * sec, 1, "yes 0/3 reset 1m0s"},
		{62 * sec, 3, "no 2/3 retry 59s reset 59s"},
		{62 * sec, 4, "no 2/3 retry never reset 59s"},
		{62 * sec, 2, "yes 0/3 reset 1m0s"},
	}},
	{"permits", "3 concurrent ttl 10s", "at most N permits are in flight, and one that nobody renews ends after its TTL", []row{
		{0, 1, "yes 2/3 reset 10s"},
		{4 * sec, 2, "yes 0/3 reset 10s"},
		{5 * sec, 1, "no 0/3 retry 5s reset 9s"},
		{5 * sec, 2, "no 0/3 retry 9s reset 9s"},
		{10*sec - us, 1, "no 0/3 retry 1µs reset 4.000001s"},
		{10 * sec, 1, "yes 0/3 reset 10s"},
		{14 * sec, 0, "yes 2/3 reset 6s"},
		{14 * sec, 4, "no 2/3 retry never reset 6s"},
		{20 * sec, 0, "yes 3/3"},
	}},
	{"warm-up", "12/s burst 12 warmup 8s", ruleWarm, []row{
		{0, 1, "no 0/12 retry 250ms reset 2.5s"},
		{1 * sec, 4, "yes 0/12 reset 2.142858s"}, // 5 in the next second, 6 in the one after, the twelfth at 7 a second
		{2 * sec, 6, "no 5/12 retry 166.667ms reset 1.142858s"},
		{2 * sec, 5, "yes 0/12 reset 1.857143s"},
		{3 * sec, 6, "yes 0/12 reset 1.625s"},
		{4 * sec, 7, "yes 0/12 reset 1.444445s"},
		{5 * sec, 8, "yes 0/12 reset 1.3s"},
		{6 * sec, 9, "yes 0/12 reset 1.181819s"},
		{7 * sec, 10, "yes 0/12 reset 1.083334s"},
		{8 * sec, 11, "yes 0/12 reset 1s"},
		{9 * sec, 12, "yes 0/12 reset 1s"},
		{10 * sec, 12, "yes 0/12 reset 1s"},
	}},
	{"warm-up after idleness", "12/s burst 12 warmup 8s", ruleWarm + "; it is cold again when it has been full for as long as the warm-up", []row{
		{0, 1, "no 0/12 retry 250ms reset 2.5s"},
		{2500*ms - us, 12, "no 11/12 retry 1µs reset 1µs"},
		{2500 * ms, 0, "yes 12/12"},
		{10500*ms - us, 0, "yes 12/12"},
		{10500 * ms, 1, "no 0/12 retry 250ms reset 2.5s"},
	}},
	{"none", "none", "none lets nothing pass", []row{
		{0, 1, "no 0/0 retry never reset never"},
		{0, 0, "no 0/0 retry never reset never"},
		{time.Hour, math.MaxInt64, "no 0/0 retry never reset never"},
	}},
	{"unlimited", "unlimited", "unlimited lets everything pass", []row{
		{0, 1, "yes unlimited"},
		{0, 0, "yes unlimited"},
		{0, -1, "yes unlimited"},
		{0, math.MaxInt64, "yes unlimited"},
		{0, math.MaxInt64, "yes unlimited"},
	}},
}

// decisionCases makes a case of each scenario.
func decisionCases() []testCase { return scenarioCases(scenarios) }

func scenarioCases(scenarios []scenario) []testCase {
	cases := make([]testCase, 0, len(scenarios))
	for _, s := range scenarios {
		cases = append(cases, testCase{s.name, s.rule, func(x *trial) {
			b := x.bucket(s.limit)
			for _, r := range s.takes {
				x.at(r.at)
				b.wants(r.cost, r.want)
			}
		}})
	}
	return cases
}
