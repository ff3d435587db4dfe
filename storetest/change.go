package storetest

import (
	"fmt"
	"math/big"
	"time"
)

const (
	ruleShare = "changing a limit keeps what was spent: the share of the bucket in use carries over, rounded down; it is neither refilled nor emptied"
	ruleOld   = "time before the change of a limit counts at the old rate, time after it at the new one"
	ruleOlder = "an older version never rewrites a newer one: its takes are decided under the bucket's own limit"
	rulePoll  = "once a limit has changed RetryAfter is exact under the new one, also for somebody whom the bucket has only ever refused"
	ruleTie   = "where two replicas disagree about a limit of one version, their disagreement grants nothing"
)

func changeCases() []testCase {
	cases := []testCase{
		{"raise", ruleShare, raise},
		{"lower", ruleShare, lower},
		{"lower below what is in use", ruleShare, lowerBelowUse}, // RB-061
		{"rounded down", ruleShare, shareRoundedDown},
		{"old rate until the change", ruleOld, oldRate},
		{"change in the future", ruleOld, changeInFuture},
		{"change of an idle bucket", ruleShare, changeIdle},
		{"older version", ruleOlder, olderVersion},
		{"older version of another algorithm", ruleOlder, olderAlgorithm},
		{"only the version is newer", "a newer version of the same limit changes nothing", newerSame},
		{"peek under a newer limit", "a peek writes nothing, not even a newer limit", peekNewer},
		{"refused under a newer limit", ruleOld, refusedNewer},
		{"limits of a log", ruleShare, changeLog},
		{"permits in flight", "permits in flight stay in flight when their limit changes, each for the time that it was given", changePermits},
		{"polling through a change of period", rulePoll, pollPeriod},
		{"tie of fractions", ruleTie, tieOfFractions},
		{"unlimited for a while", "a limit that comes back finds its bucket as it was left", unlimitedForAWhile},
		{"random changes of rate", ruleOld, randomRates},
	}
	cases = append(cases, forEach("back and forth", ruleShare, backAndForth, "permits")...)
	cases = append(cases, forEach("tie", ruleTie, tie, "permits")...)
	cases = append(cases, forEach("to permits and back", "what is in flight is not spent, and what is spent is not in flight", throughPermits, "permits")...)
	for _, from := range algorithms {
		for _, to := range algorithms {
			if from.name != "permits" && to.name != "permits" && from.name != to.name {
				cases = append(cases,
					testCase{from.name + " to " + to.name, ruleShare, func(x *trial) { changeAlgorithm(x, from, to) }},
					testCase{"polling from " + from.name + " to " + to.name, rulePoll, func(x *trial) { poll(x, from, to) }},
				)
			}
		}
	}
	return cases
}

func raise(x *trial) {
	b := x.bucket("10/s burst 10")
	b.take(5)
	b.changed("100/s burst 100", x.version()).wants(0, "yes 50/100 reset 500ms")
	b.changed("100/s burst 100", x.version()).wants(1, "yes 49/100 reset 510ms")
	x.at(400 * ms)
	b.changed("100/s burst 100", x.version()).wants(89, "yes 0/100 reset 1s")
}

func lower(x *trial) {
	b := x.bucket("10/s burst 100")
	b.take(55)
	v := x.version()
	b.changed("10/s burst 10", v).wants(0, "yes 4/10 reset 550ms")
	b.changed("10/s burst 10", v).wants(4, "yes 0/10 reset 950ms")
	b.changed("10/s burst 10", v).wants(1, "no 0/10 retry 50ms reset 950ms")
	w := x.bucket("100/min fixed-window")
	w.take(55)
	w.changed("10/min fixed-window", v).wants(0, "yes 5/10 reset 1m0s")
	w.changed("10/min fixed-window", v).wants(6, "no 5/10 retry 1m0s reset 1m0s")
}

func lowerBelowUse(x *trial) {
	b := x.bucket("1/s burst 100")
	b.drain()
	low := b.changed("1/s burst 10", x.version())
	low.wants(5, "no 0/10 retry 5s reset 10s")
	low.wants(0, "no 0/10 retry 1s reset 10s")
	x.at(5*sec - us)
	low.wants(5, "no 4/10 retry 1µs reset 5.000001s")
	x.at(5 * sec)
	low.wants(5, "yes 0/10 reset 10s")
}

func shareRoundedDown(x *trial) {
	b := x.bucket("3/s burst 3")
	b.take(1)
	b.changed("2/s burst 2", x.version()).wants(0, "yes 1/2 reset 333.333ms") // a third of 2 is in use
	w := x.bucket("3/min fixed-window")
	w.take(2)
	w.changed("2/min fixed-window", x.version()).wants(0, "yes 1/2 reset 1m0s") // 1.33 is in use
}

func oldRate(x *trial) {
	b := x.bucket("10/s burst 1000")
	b.drain()
	v := start.Add(sec).UnixMicro()
	x.at(2 * sec) // 10 in the first second and 100 in the other
	fast := b.changed("100/s burst 1000", v)
	fast.wants(0, "yes 110/1000 reset 8.9s")
	fast.wants(10, "yes 100/1000 reset 9s")
	x.at(3 * sec)
	fast.wants(0, "yes 200/1000 reset 8s")
	slow := b.changed("10/s burst 1000", x.version())
	x.at(4 * sec)
	slow.wants(1, "yes 209/1000 reset 1m19.1s")
	stopped := x.bucket("1000/s burst 10")
	stopped.drain()
	v = x.version()
	x.advance(time.Hour) // RB-004: what was not refilled before the change is not refilled after it
	stopped.changed("1/h burst 10", v).wants(1, "yes 0/10 reset 10h0m0s")
}

func changeInFuture(x *trial) {
	b := x.bucket("10/s burst 1000")
	b.drain()
	x.at(sec)
	ahead := b.changed("100/s burst 1000", start.Add(time.Hour).UnixMicro()) // RB-056: by somebody's fast clock
	ahead.wants(1, "yes 9/1000 reset 9.91s")
	x.at(2 * sec)
	ahead.wants(0, "yes 109/1000 reset 8.91s")
}

func changeIdle(x *trial) {
	for _, a := range algorithms {
		b := x.ready(a.limit)
		x.advance(b.take(5).ResetAfter)
		if d := b.changed(a.other, x.version()).take(0); d.Remaining != 14 || d.Limit != 14 {
			x.Errorf("%s: full again, then %s: %s", b, a.other, say(d))
		}
	}
}

func olderVersion(x *trial) {
	old := x.bucket("10/s burst 10")
	old.take(5)
	v := x.version()
	b := old.changed("100/s burst 100", v)
	b.wants(10, "yes 40/100 reset 600ms")
	old.wants(1, "yes 39/100 reset 610ms")
	old.wants(40, "no 39/100 retry 10ms reset 610ms")
	old.changed("20/s burst 20", v-1).wants(1, "yes 38/100 reset 620ms")
	b.wants(0, "yes 38/100 reset 620ms")
	b.changed("10/s burst 10", v+1).wants(0, "yes 3/10 reset 620ms") // 6.2 in use
}

func olderAlgorithm(x *trial) {
	for _, from := range algorithms {
		for _, to := range algorithms {
			if from.name == "permits" || to.name == "permits" || to.name == "warm-up" || from.name == "warm-up" {
				continue
			}
			b := x.bucket(from.limit)
			b.changed(to.other, 5).take(4)
			if d := b.take(1); !d.Allowed || d.Limit != 14 || d.Remaining != 9 {
				x.Errorf("%s: an older take on a bucket of %s: %s", b, to.other, say(d))
			}
			if d := b.changed(to.other, 5).take(0); d.Limit != 14 || d.Remaining != 9 {
				x.Errorf("%s: a bucket of %s after an older take: %s", b, to.other, say(d))
			}
		}
	}
}

func newerSame(x *trial) {
	for _, a := range algorithms {
		b, left := x.twins(a.limit)
		b.take(7)
		left.take(7)
		for v := range int64(5) {
			x.advance(a.fill / 9)
			d := left.take(1)
			b.changed(a.limit, x.version()+v).wants(1, say(d))
		}
	}
}

func peekNewer(x *trial) {
	b := x.bucket("10/s burst 10")
	b.take(5)
	b.changed("100/s burst 100", x.version()).wants(0, "yes 50/100 reset 500ms")
	b.wants(0, "yes 5/10 reset 500ms")
}

// refusedNewer asks in vain under a newer limit: whether the store keeps it or reckons it again must not show.
func refusedNewer(x *trial) {
	b := x.bucket("10/s burst 10")
	b.drain()
	v := x.version()
	for range 5 {
		b.changed("1/s burst 10", v).take(10)
		x.advance(200 * ms)
	}
	b.changed("1/s burst 10", v).wants(1, "yes 0/10 reset 10s")
}

func changeLog(x *trial) {
	b := x.bucket("4/min sliding-log")
	for range 2 {
		x.advance(sec)
		b.take(1)
	}
	x.advance(sec)
	low := b.changed("2/min sliding-log", x.version())
	low.wants(2, "no 1/2 retry 59s reset 59s") // half of it is in use, until both have left
	low.wants(1, "yes 0/2 reset 1m0s")
}

func changePermits(x *trial) {
	b := x.bucket("5 concurrent ttl 10s")
	for range 5 {
		b.take(1)
		x.advance(sec)
	}
	low := b.changed("2 concurrent ttl 20s", x.version())
	low.wants(1, "no 0/2 retry 8s reset 9s") // when 4 of the 5 have ended
	low.wants(2, "no 0/2 retry 9s reset 9s")
	x.at(13*sec - us)
	low.wants(1, "no 0/2 retry 1µs reset 1.000001s")
	x.at(13 * sec)
	low.wants(1, "yes 0/2 reset 20s")
	b.changed("8 concurrent ttl 1s", x.version()).wants(1, "yes 5/8 reset 20s")
}

func unlimitedForAWhile(x *trial) {
	b := x.bucket("10/h burst 10")
	b.drain()
	for _, l := range []string{"unlimited", "none"} {
		d := b.changed(l, x.version()).take(1)
		if d.Allowed != (l == "unlimited") {
			x.Errorf("%s: %s", l, say(d))
		}
		x.advance(time.Minute)
	}
	b.changed("10/h burst 10", x.version()).wants(1, "no 0/10 retry 4m0s reset 58m0s")
}

// backAndForth changes between two limits. Each change may round down what is in use by a token, and nothing more.
func backAndForth(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.take(5)
	limits := []string{a.limit, a.other}
	for n := range int64(6) {
		c := b.changed(limits[1-n%2], x.version()+n)
		c.take(1) // so that the change is kept
		d := c.take(-1)
		in := new(big.Rat).Sub(big.NewRat(d.Limit-d.Remaining, d.Limit), big.NewRat(5, capacity))
		if in.Cmp(big.NewRat(1, 14)) >= 0 || in.Cmp(big.NewRat(-n-1, 14)) <= 0 {
			x.Errorf("%s: 5 of %d were in use; after %d changes: %s", b, capacity, n+1, say(d))
		}
	}
}

// tie lets two limits of one version quarrel over a bucket: what they admit must fit into it.
func tie(x *trial, a algorithm) {
	b := x.ready(a.limit)
	sum := new(big.Rat)
	v := x.version()
	for n := range 200 {
		c, holds := b.changed(a.limit, v), int64(capacity)
		if n%2 == 1 {
			c, holds = b.changed(a.other, v), 14
		}
		if c.take(1).Allowed {
			sum.Add(sum, big.NewRat(1, holds))
		}
	}
	if sum.Cmp(big.NewRat(1, 1)) > 0 || sum.Cmp(big.NewRat(1, 2)) < 0 {
		x.Errorf("%s and %s of one version admitted %s of a bucket", a.limit, a.other, sum.FloatString(3))
	}
}

// tieOfFractions flips between two limits of one version that share no round share: no flip may give back a unit.
func tieOfFractions(x *trial) {
	b := x.bucket("3/s burst 3")
	b.take(1)
	before := b.take(0).ResetAfter
	for n := range 400 {
		c := b.changed("7/s burst 7", x.version())
		if n == 0 {
			b = b.changed("3/s burst 3", x.version())
		}
		for _, y := range []*bucket{c, b} {
			y.take(1) // so that the change is kept
			y.take(-1)
		}
	}
	if d := b.take(0); d.ResetAfter < before || d.ResetAfter > before+10*ms {
		x.Errorf("%s: quarrelled over 400 times at one moment, it is to be full after %v instead of %v", b, d.ResetAfter, before)
	}
}

func changeAlgorithm(x *trial, from, to algorithm) {
	b := x.ready(from.limit)
	b.take(10)
	c := b.changed(to.limit, x.version())
	if d := c.take(0); d.Remaining != 10 || d.Limit != capacity {
		x.Errorf("%s to %s: half in use, then %s", from.limit, to.limit, say(d))
	}
	if d := c.take(11); d.Allowed {
		x.Errorf("%s to %s: half in use, then 11: %s", from.limit, to.limit, say(d))
	}
	if d := c.take(10); !d.Allowed || d.Remaining != 0 {
		x.Errorf("%s to %s: half in use, then 10: %s", from.limit, to.limit, say(d))
	}
	if d := c.take(1); d.Allowed || d.RetryAfter > to.fill {
		x.Errorf("%s to %s: empty, then 1: %s", from.limit, to.limit, say(d))
	}
	if d := b.changed(from.limit, x.version()+1).take(1); d.Allowed || d.RetryAfter > from.fill {
		x.Errorf("%s to %s and back: empty, then 1: %s", from.limit, to.limit, say(d))
	}
}

// throughPermits makes a limit one of permits for a while.
func throughPermits(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.take(10)
	p := b.changed("5 concurrent ttl 1m", x.version())
	p.wants(0, "yes 5/5")
	p.wants(3, "yes 2/5 reset 1m0s")
	id := p.acquire(2)
	p.wants(1, "no 0/5 retry 1m0s reset 1m0s")
	p.wantRelease(id, true)
	p.wants(0, "yes 2/5 reset 1m0s")
	id = p.acquire(1)
	back := b.changed(a.other, x.version()+1)
	if d := back.take(1); a.name != "warm-up" && d.Remaining != 13 { // a bucket that warms up is cold
		x.Errorf("%s, permits, then %s: %s", a.limit, a.other, say(d))
	}
	back.wantRelease(id, false)
	p = p.changed("5 concurrent ttl 1m", x.version()+2)
	p.wants(0, "yes 5/5")
	p.wants(2, "yes 3/5 reset 1m0s")
}

// pollPeriod replaces a limit that was used up by a faster one of the same kind.
func pollPeriod(x *trial) {
	for _, a := range []algorithm{
		{limit: "20/day fixed-window", other: "20/min fixed-window", fill: time.Minute},
		{limit: "20/month", other: "20/min fixed-window", fill: time.Minute},
		{limit: "20/month", other: "20/day tz UTC", fill: day},
		{limit: "20/day sliding-window", other: "20/min sliding-window", fill: 2 * time.Minute},
		{limit: "20/min sliding-window slices 2", other: "20/min sliding-window slices 5", fill: 72 * sec},
		{limit: "20/day sliding-log", other: "20/min sliding-log", fill: time.Minute},
		{limit: "20/day burst 20", other: "20/s burst 20", fill: sec},
		{limit: "20/day leaky-bucket queue 19", other: "20/s leaky-bucket queue 19", fill: sec},
	} {
		x.at(time.Hour)
		poll(x, a, algorithm{limit: a.other, fill: a.fill})
	}
}

// poll asks an emptied bucket again and again under another limit, each time when it was told to.
func poll(x *trial, from, to algorithm) {
	b := x.ready(from.limit)
	b.drain()
	c := b.changed(to.limit, x.version())
	for range 3 {
		c.drain()
		d := c.take(1)
		if d.Allowed || d.RetryAfter > to.fill {
			x.Errorf("%s to %s: empty, then %s", from.limit, to.limit, say(d))
		}
		x.advance(d.RetryAfter)
		if late := c.take(1); !late.Allowed {
			x.Fatalf("%s to %s: %s, and then %s", from.limit, to.limit, say(d), say(late))
		}
	}
}

// randomRates changes the rate of a bucket again and again, and reckons what must have come back.
func randomRates(x *trial) {
	r := x.rand
	for range x.h.Rounds {
		x.at(0)
		const burst = 1_000_000
		b := x.bucket(fmt.Sprintf("1/s burst %d", burst))
		b.take(burst / 2)
		rate, level, last := int64(1), big.NewRat(burst/2, 1), start
		accrue := func(to time.Time) {
			level.Add(level, big.NewRat(rate*int64(to.Sub(last)/us), 1_000_000))
			last = to
		}
		for range 6 {
			x.advance(time.Duration(r.Int64N(10_000_000)) * us)
			accrue(x.now())
			rate = 1 + r.Int64N(1000)
			b = b.changed(fmt.Sprintf("%d/s burst %d", rate, burst), x.version())
			x.advance(time.Duration(r.Int64N(10_000_000)) * us)
			accrue(x.now())
			tokens := new(big.Int).Quo(level.Num(), level.Denom()).Int64()
			d := b.take(1)
			level.Sub(level, big.NewRat(1, 1))
			// Each change rounds what is in use down, by less than a unit, which is far less than a token.
			if !d.Allowed || d.Remaining < tokens-1 || d.Remaining > tokens {
				x.Fatalf("%s: got %s where %d must have come back", b, say(d), tokens)
			}
		}
	}
}
