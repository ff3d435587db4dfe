package storetest

import (
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
)

// faultCases are faults that other limiters shipped. The numbers are those of the project's list; where the fault is
// of a subject that has a group of its own it is there: RB-001 and RB-114 in settle, RB-004 in calls and change, RB-022 and
// RB-047 in calendar, RB-049, RB-052 and RB-060 in cost, RB-055, RB-078 and RB-124 in keys, RB-056 and RB-061 in change,
// RB-081 and RB-089 in calls, RB-117 in decisions.
func faultCases() []testCase {
	const (
		floored = "no fraction is dropped: a refill that is rounded down and moves the time with it loses the rest"
		early   = "expiry comes from the time the bucket needs to be full again, never from a constant"
	)
	return append([]testCase{
		{"refill rounded down", floored, flooredRefill},
		{"whole seconds", floored, wholeSeconds},
		{"full again every minute", early, fullEveryMinute},
		{"RB-005 one token every 1.3 s", "a call at exactly the interval passes", tokenEvery1300ms},
		{"RB-010 raise and lower", ruleShare, raiseAndLower},
		{"RB-011 limits in series", ruleAll, limitsInSeries},
		{"RB-013 shadow first", ruleShadow, shadowFirst},
		{"RB-014 charged though refused", ruleAll, chargedThoughRefused},
		{"RB-044 fractions", floored, fractionsKept},
		{"RB-053 moving reset", "a window's end does not move with the takes in it", resetStaysPut},
		{"RB-063 expired too early", early, notExpiredEarly},
		{"RB-064 edges", ruleTimes, subSecondRetry},
		{"RB-065 large numbers", ruleTimes, largeNumbers},
		{"RB-069 pacing above a kilohertz", ruleSpace, pacingAboveKilohertz},
		{"RB-072 overflow after idleness", ruleForward, longIdleness},
		{"RB-082 durations beyond 32 bits", ruleTimes, longDurations},
		{"RB-086 idle, then a burst", ruleForward, burstAfterIdleness},
		{"RB-132 leaky as in nginx", ruleQueue, leakyAsInNginx},
	}, scenarioCases([]scenario{
		{"RB-075 anchored to the epoch", "5/min fixed-window", ruleFixed, []row{
			{11*time.Minute + 39*sec, 5, "yes 0/5 reset 21s"},
			{11*time.Minute + 59*sec, 1, "no 0/5 retry 1s reset 1s"},
			{12 * time.Minute, 1, "yes 4/5 reset 1m0s"},
			{12*time.Minute + 8*sec, 1, "yes 3/5 reset 52s"},
		}},
		{"RB-133 around the edge of a fixed window", "10/min fixed-window", ruleFixed, []row{
			{59 * sec, 9, "yes 1/10 reset 1s"},
			{61 * sec, 10, "yes 0/10 reset 59s"}, // twice the limit in two seconds: that is what fixed windows do
		}},
		{"RB-133 around the edge of a sliding window", "10/min sliding-window", ruleSlide, []row{
			{59 * sec, 9, "yes 1/10 reset 1m1s"},
			{61 * sec, 10, "no 1/10 retry 59s reset 59s"},
			{61 * sec, 1, "yes 0/10 reset 1m59s"},
		}},
		{"RB-133 around the edge of a sliding log", "10/min sliding-log", ruleLog, []row{
			{59 * sec, 9, "yes 1/10 reset 1m0s"},
			{61 * sec, 10, "no 1/10 retry 58s reset 58s"},
			{61 * sec, 1, "yes 0/10 reset 1m0s"},
			{119*sec - us, 1, "no 0/10 retry 1µs reset 2.000001s"},
			{119 * sec, 9, "yes 0/10 reset 1m0s"},
		}},
	})...)
}

// every takes 1 at equal intervals from now on and returns how often it was allowed.
func (b *bucket) every(interval time.Duration, takes int) (admitted int64) {
	b.x.Helper()
	for range takes {
		if b.take(1).Allowed {
			admitted++
		}
		b.x.advance(interval)
	}
	return admitted
}

func flooredRefill(x *trial) {
	b := x.bucket("600/s burst 100")
	if n := b.every(ms, 3000); n < 1899 || n > 1900 {
		x.Errorf("%s: asked every millisecond for 3 s: %d were admitted where 1900 are due", b, n)
	}
	for _, c := range []struct {
		limit    string
		interval time.Duration
		takes    int
		due      int64
	}{
		{"999/s burst 2", ms, 1001, 1001},      // hardly slower than the takes
		{"7/s burst 3", 10 * ms, 1001, 73},     // 3 + 7·10 s
		{"1/3s burst 2", 100 * ms, 901, 32},    // 2 + 90/3
		{"1000/s burst 1", ms, 1000, 1000},     // exactly the interval
		{"333333/s burst 5", 3 * us, 999, 999}, // hardly faster than the takes
	} {
		b := x.bucket(c.limit)
		if n := b.every(c.interval, c.takes); n < c.due-1 || n > c.due {
			x.Errorf("%s: asked %d times every %v: %d were admitted where %d are due", b, c.takes, c.interval, n, c.due)
		}
	}
}

func wholeSeconds(x *trial) {
	b := x.bucket("10/s burst 1")
	x.at(300 * ms)
	if n := b.every(50*ms, 61); n != 31 {
		x.Errorf("%s: asked every 50 ms for 3 s: %d were admitted where 31 are due", b, n)
	}
	w := x.bucket("5/500ms fixed-window")
	x.at(time.Minute)
	if n := w.every(10*ms, 300); n != 30 {
		x.Errorf("%s: asked every 10 ms for 3 s: %d were admitted where 30 are due", w, n)
	}
}

func fullEveryMinute(x *trial) {
	for _, limit := range []string{
		"10/day burst 10", "10/day leaky-bucket queue 9", "10/day fixed-window", "10/month", "10/day sliding-window", "10/day sliding-log",
	} {
		x.at(0)
		b := x.bucket(limit)
		b.drain()
		for _, idle := range []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour, 2*time.Hour + 23*time.Minute} {
			x.at(idle)
			if d := b.take(1); d.Allowed {
				x.Errorf("%s: emptied, and after %v: %s", b, idle, say(d))
			}
		}
	}
}

func tokenEvery1300ms(x *trial) {
	for _, limit := range []string{"1/1300ms burst 1", "10/13s burst 1", "10/13s leaky-bucket", "1/1300ms fixed-window"} {
		b := x.bucket(limit)
		x.set(x.now().Truncate(1300 * ms)) // of the year 1, which is no multiple of 1.3 s before the epoch
		for n := range 1000 {
			if d := b.take(1); !d.Allowed {
				x.Fatalf("%s: call %d, 1.3 s after the one before: %s", b, n, say(d))
			}
			if n%100 == 0 && b.charge.Limit.Algorithm != tidegate.FixedWindow {
				x.advance(1300*ms - us)
				b.wants(1, "no 0/1 retry 1µs reset 1µs")
				x.advance(us)
			} else {
				x.advance(1300 * ms)
			}
		}
	}
}

func raiseAndLower(x *trial) {
	b := x.bucket("10/s burst 10")
	fast := b.changed("1000/s burst 1000", x.version())
	x.at(100 * ms)
	if n := fast.admit(200); n != 200 {
		x.Errorf("%s: raised from 10/s, %d of 200 passed", fast, n)
	}
	slow := fast.changed("1/s burst 1", x.version())
	if n := slow.admit(5); n != 0 {
		x.Errorf("%s: lowered while a fifth was in use, %d of 5 passed", slow, n)
	}
	x.at(300 * ms)
	slow.wants(1, "yes 0/1 reset 1s")
	slow.wants(1, "no 0/1 retry 1s reset 1s")
}

func limitsInSeries(x *trial) {
	a, b := x.bucket("100000/day fixed-window"), x.bucket("1/s burst 1")
	admitted := int64(0)
	for range 3000 {
		if ds := x.takeAll(a.asks(1), b.asks(1)); ds[0].Allowed && ds[1].Allowed {
			admitted++
		}
		x.advance(20 * ms)
	}
	if d := a.take(0); admitted != 60 || d.Limit-d.Remaining != admitted {
		x.Errorf("50 takes a second for a minute: %d passed, and of the wide limit %d were used", admitted, d.Limit-d.Remaining)
	}
}

func shadowFirst(x *trial) {
	for _, first := range []bool{true, false} {
		s, e := x.bucket("1/min fixed-window"), x.bucket("3/min fixed-window")
		for n := range 10 {
			charges := []tidegate.Charge{s.inShadow(1), e.asks(1)}
			if !first {
				charges[0], charges[1] = charges[1], charges[0]
			}
			if d := tidegate.Combine(charges, x.takeAll(charges...)); d.Allowed != (n < 3) || d.Rule != e.charge.Rule {
				x.Errorf("take %d, shadow first %v: %s by %s", n, first, say(d), d.Rule)
			}
		}
	}
}

func chargedThoughRefused(x *trial) {
	a, b := x.bucket("2/min fixed-window"), x.bucket("100/min fixed-window")
	for range 50 {
		x.takeAll(a.asks(1), b.asks(1))
	}
	b.wants(0, "yes 98/100 reset 1m0s")
}

func fractionsKept(x *trial) {
	b := x.bucket("10/30s burst 10")
	b.drain()
	x.advance(4500 * ms)
	if n := b.every(4500*ms, 20); n != 20 {
		x.Errorf("%s: asked 20 times every 4.5 s: %d were admitted", b, n)
	}
	if n := b.admit(12); n != 10 {
		x.Errorf("%s: 31.5 have come back and 20 were taken: %d of 12 were admitted", b, n)
	}
}

func resetStaysPut(x *trial) {
	for _, limit := range []string{"100/min fixed-window", "100/day tz UTC"} {
		b := x.bucket(limit)
		x.at(time.Second)
		end := x.now().Add(b.take(1).ResetAfter)
		for range 58 {
			x.advance(sec)
			if d := b.take(2); !x.now().Add(d.ResetAfter).Equal(end) {
				x.Errorf("%s: the window ends at %v, and then at %v", b, end, x.now().Add(d.ResetAfter))
			}
		}
	}
}

func notExpiredEarly(x *trial) {
	for _, limit := range []string{"1/10s burst 1", "1/10s leaky-bucket", "1/10s sliding-log"} {
		x.at(0)
		b := x.bucket(limit)
		if n := b.every(sec, 61); n != 7 {
			x.Errorf("%s: asked every second for a minute: %d were admitted where 7 are due", b, n)
		}
	}
}

func subSecondRetry(x *trial) {
	b := x.bucket("100/s burst 1")
	b.take(1)
	x.at(3 * ms)
	b.wants(1, "no 0/1 retry 7ms reset 7ms")
	b.wants(10, "no 0/1 retry never reset 7ms")
}

func largeNumbers(x *trial) {
	for _, c := range []struct {
		limit string
		holds int64
		fill  time.Duration
	}{
		{"6000/s burst 6000", 6000, sec},
		{"1000/min burst 1000", 1000, time.Minute},
		{"1000000/s burst 1000000", 1_000_000, sec},
		{"1000000000/s burst 1000000000", 1_000_000_000, sec},
		{"1000000000/day fixed-window", 1_000_000_000, day},
		{"4000000000000000/day fixed-window", 4_000_000_000_000_000, day},
		{"1000000/s sliding-window", 1_000_000, 2 * sec},
	} {
		x.at(0)
		b := x.bucket(c.limit)
		b.wants(c.holds, fmt.Sprintf("yes 0/%d reset %v", c.holds, c.fill))
		if d := b.take(1); d.Allowed || d.RetryAfter > c.fill {
			x.Errorf("%s: empty: %s", b, say(d))
		}
		x.advance(c.fill)
		b.wants(c.holds, fmt.Sprintf("yes 0/%d reset %v", c.holds, c.fill))
	}
}

func pacingAboveKilohertz(x *trial) {
	for _, rate := range []int64{999, 1000, 1001, 1500, 5000} {
		b := x.bucket(fmt.Sprintf("%d/s leaky-bucket queue 9", rate))
		due := 10 + rate*1999/10_000 // the queue, and what flows out until the last take
		if n := b.every(100*us, 2000); n != due {
			x.Errorf("%s: asked every 100 µs for 0.2 s: %d were admitted where %d are due", b, n, due)
		}
	}
}

func longIdleness(x *trial) {
	for _, limit := range []string{"1000000/s burst 1000000", "1000000/ms burst 1000000", "1000000/s leaky-bucket queue 99", "1000/ms sliding-window slices 100"} {
		x.at(0)
		b := x.bucket(limit)
		for _, idle := range []time.Duration{12 * time.Hour, 30 * day, 100 * 365 * day} {
			b.drain()
			x.advance(idle)
			if d := b.take(1); !d.Allowed || d.Remaining != d.Limit-1 {
				x.Errorf("%s: after %v: %s", b, idle, say(d))
			}
		}
	}
}

func longDurations(x *trial) {
	for _, c := range []struct {
		limit string
		retry time.Duration
	}{
		{"1/50day burst 1", 50 * day},
		{"1/50day sliding-log", 50 * day},
		{"1/18250day burst 1", 18_250 * day},
		{"1/18250day leaky-bucket", 18_250 * day},
		{"1/18250day sliding-log", 18_250 * day},
		{"1/1000000000s burst 1", 1_000_000_000 * sec},
	} {
		x.at(0)
		b := x.bucket(c.limit)
		b.wants(1, fmt.Sprintf("yes 0/1 reset %v", c.retry))
		b.wants(1, fmt.Sprintf("no 0/1 retry %v reset %v", c.retry, c.retry))
		x.advance(c.retry - us)
		b.wants(1, "no 0/1 retry 1µs reset 1µs")
		x.advance(us)
		b.wants(0, "yes 1/1")
	}
}

func burstAfterIdleness(x *trial) {
	b := x.bucket("1/s burst 10")
	b.take(1)
	x.advance(time.Hour)
	if n := b.admit(30); n != 10 {
		x.Errorf("%s: after an hour %d of 30 were admitted", b, n)
	}
}

func leakyAsInNginx(x *trial) {
	for _, c := range []struct {
		limit        string
		now, delayed int
		retry        time.Duration // of those refused: as long for the last as for the first
	}{
		{"10/s leaky-bucket", 1, 0, 100 * ms},
		{"10/s leaky-bucket queue 20", 1, 14, 0},
		{"10/s leaky-bucket queue 10", 1, 10, 100 * ms},
		{"10/s burst 20", 15, 0, 0},
		{"30/min leaky-bucket", 1, 0, 2 * sec},
	} {
		b := x.bucket(c.limit)
		now, delayed := 0, 0
		for range 15 {
			switch d := b.take(1); {
			case !d.Allowed:
				if d.RetryAfter != c.retry {
					x.Errorf("%s: refused: %s", b, say(d))
				}
			case d.Delay > 0:
				delayed++
			default:
				now++
			}
		}
		if now != c.now || delayed != c.delayed {
			x.Errorf("%s: of 15 at once %d passed and %d were delayed, want %d and %d", b, now, delayed, c.now, c.delayed)
		}
	}
}
