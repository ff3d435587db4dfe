package tidegate

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that a zone means the same on every machine, with or without a zone database
)

// Algorithm says how a [Limit] counts. The zero value is [TokenBucket].
type Algorithm uint8

// The algorithms. docs/architecture.md says when to use which.
const (
	// TokenBucket holds Burst tokens and refills at Rate per Per.
	TokenBucket Algorithm = iota
	// LeakyBucket spaces takes evenly, Per/Rate apart, and queues at most Queue of them.
	LeakyBucket
	// FixedWindow counts up to Rate in windows aligned to the Unix epoch, or to the calendar.
	FixedWindow
	// SlidingWindow counts in Slices slices of the window, the oldest one weighted.
	SlidingWindow
	// SlidingLog remembers every take: no interval of length Per ever holds more than Rate.
	SlidingLog
	// Concurrency allows Rate permits in flight at once.
	Concurrency
	// None lets nothing pass.
	None
	// Unlimited lets everything pass.
	Unlimited
)

var algorithmNames = [...]string{
	TokenBucket:   "token-bucket",
	LeakyBucket:   "leaky-bucket",
	FixedWindow:   "fixed-window",
	SlidingWindow: "sliding-window",
	SlidingLog:    "sliding-log",
	Concurrency:   "concurrent",
	None:          "none",
	Unlimited:     "unlimited",
}

// String returns the name that the limit grammar uses.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Calendar is the unit of a window that follows a calendar instead of a fixed length of time.
// The zero value means that the window has the length Per.
type Calendar uint8

// The calendar units. A day may have 23 or 25 hours in a zone with daylight saving; a week starts on Monday.
const (
	NoCalendar Calendar = iota
	CalendarDay
	CalendarWeek
	CalendarMonth
	CalendarYear
)

var calendarNames = [...]string{"", "day", "week", "month", "year"}

// String returns the unit's name in the limit grammar; the empty string for [NoCalendar].
func (c Calendar) String() string {
	if int(c) < len(calendarNames) {
		return calendarNames[c]
	}
	return fmt.Sprintf("Calendar(%d)", uint8(c))
}

// A Limit says how much may pass. It is a value: comparable, free of pointers, safe to copy.
// The zero Limit is not valid, so that a limit somebody forgot to fill in is an error and neither a closed nor an open door.
//
// A field that the algorithm does not use must be zero; [Limit.Validate] says so otherwise.
type Limit struct {
	// Rate is how many tokens come back in a period: the N of "N/s"; the number of permits of [Concurrency].
	// At least 1; at most 10,000 for [SlidingLog] and [Concurrency], which keep an entry for each.
	Rate int64
	// Per is the period: whole microseconds, from 1 ms to 50 years.
	// Zero for [Concurrency] and where Calendar is set.
	Per time.Duration
	// Calendar makes a [FixedWindow] follow the calendar of Zone instead of Per.
	Calendar Calendar
	// Zone is the IANA name of the time zone of Calendar. Default: UTC. "Local" is refused: replicas may differ in it.
	Zone string
	// Burst is how many tokens a [TokenBucket] holds. Default: Rate.
	Burst int64
	// Algorithm says how to count. Default: [TokenBucket].
	Algorithm Algorithm
	// Queue is how many takes a [LeakyBucket] lets wait for their turn. Default: 0: a take that would have to wait is
	// refused, and only Reserve and Wait do wait, as long as their MaxWait allows.
	Queue int64
	// Slices is into how many slices a [SlidingWindow] is cut, 1 to 100; the count is off by at most one slice.
	// Default: 1, two counters of which the older is weighted.
	Slices int
	// Warmup is how long a cold [TokenBucket] takes to climb from a third of Rate to the whole, in eight equal steps,
	// from an empty bucket. Default: 0, a first sight finds a full bucket at full rate.
	Warmup time.Duration
	// TTL is how long a permit of [Concurrency] is held unless it is renewed, 1 ms to 24 h. Default: 60 s.
	TTL time.Duration
	// Lease lets a process take tokens of a [TokenBucket] ahead and spend them without asking the store, for as long as
	// this: whole microseconds, from 1 ms to 10 s. Tokens leave the bucket before they are spent, and those that are not
	// are never returned: in any interval t at most Burst + Rate·(t + Lease)/Per pass. It needs a burst of at least 10,
	// in each shard where there are several, since at most a tenth of it is taken ahead. Default: 0, every take asks.
	// Stores of one process have nothing to take ahead from, and ignore it.
	Lease time.Duration
	// Shards spreads the limit over so many buckets that add up to it, 2 to 256, in different slots of a cluster, so that
	// one hot key is not one server's load; see [Limit.Shard]. A take goes to one of them, and to one other if that refuses.
	// Limit and Remaining of its decision are that shard's; a cost above the largest shard's capacity never passes; and load
	// near the limit gets all of it only where each shard has some tokens, ten or more. For [TokenBucket] without Warmup,
	// [FixedWindow] and [SlidingWindow]. Default: 0, like 1: one bucket. Stores of one process ignore it.
	Shards int
}

const (
	// maxExact is the largest integer that a float64, and so Lua, holds with all below it.
	maxExact = 1<<53 - 1
	// maxYears keeps every moment that a bucket computes, now plus the time to fill, below 2^53 microseconds until 2155.
	maxYears   = 50 * 365 * 24 * time.Hour
	maxWarmup  = 365 * 24 * time.Hour
	maxEntries = 10_000
	maxSlices  = 100
	maxTTL     = 24 * time.Hour
	maxShards  = 256
	minLease   = time.Millisecond
	maxLease   = 10 * time.Second
	// leasePart is the part of a burst that is taken ahead at most, so that a burst below it has nothing to take.
	leasePart  = 10
	defaultTTL = time.Minute
	// warmupSteps is the number of equal steps in which a warming bucket's rate climbs.
	warmupSteps = 8
)

// Normalize returns the limit with its defaults filled in. Two limits that mean the same are equal when normalized.
func (l Limit) Normalize() Limit {
	switch l.Algorithm {
	case TokenBucket:
		if l.Burst == 0 {
			l.Burst = l.Rate
		}
	case FixedWindow:
		if l.Calendar != NoCalendar && l.Zone == "" {
			l.Zone = "UTC"
		}
	case SlidingWindow:
		if l.Slices == 0 {
			l.Slices = 1
		}
	case Concurrency:
		if l.TTL == 0 {
			l.TTL = defaultTTL
		}
	case LeakyBucket, SlidingLog, None, Unlimited:
	}
	if l.Shards == 1 && l.splits() {
		l.Shards = 0
	}
	return l
}

// Validate returns a [*LimitError] that says what is wrong with the limit and what to write instead, or nil.
// A limit that cannot be counted exactly is refused here, never rounded later.
func (l Limit) Validate() error {
	_, err := l.Resolution()
	return err
}

// Capacity is what a decision's Remaining counts down from: the burst of a token bucket, one more than the queue of a
// leaky bucket, the N of a window or of permits; 0 for [None] and [NoLimit] for [Unlimited].
func (l Limit) Capacity() int64 {
	switch l.Algorithm {
	case TokenBucket:
		if l.Burst != 0 {
			return l.Burst
		}
	case LeakyBucket:
		return l.Queue + 1
	case Unlimited:
		return NoLimit
	case None:
		return 0
	case FixedWindow, SlidingWindow, SlidingLog, Concurrency:
	}
	return l.Rate
}

// Resolution returns the tick: the step of time, 1 µs times a power of ten, in which the limit is counted, so that every
// number stays an integer below 2^53. Times in decisions are rounded up to it. The error is that of [Limit.Validate].
//
// For a bucket it is the smallest tick for which four times the largest of rate, burst and queue, in units of which one
// token costs the reduced period, stays exact: room for the bucket, for as much debt, and for their sum with a cost.
// It is never above Per/1000. Neither a lease nor shards change it.
func (l Limit) Resolution() (time.Duration, error) {
	if p := l.unused(); p != nil {
		return 0, p
	}
	l = l.Normalize()
	tick, err := l.tick()
	if err == nil {
		err = l.checkShards()
	}
	if err == nil {
		err = l.checkLease()
	}
	if err != nil {
		return 0, err
	}
	return tick, nil
}

// tick finds the tick of a normalized limit; see [Limit.Resolution].
func (l Limit) tick() (time.Duration, error) {
	switch l.Algorithm {
	case None, Unlimited:
		return time.Microsecond, nil
	case Concurrency:
		return time.Microsecond, l.checkConcurrency()
	case TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog:
	default:
		return 0, limitErrorf("unknown algorithm %d", uint8(l.Algorithm)).hint("use one of the constants of the package")
	}
	if l.Rate < 1 {
		return 0, limitErrorf("the rate is %d", l.Rate).hint(`it must be at least 1, as in "10/s"; "none" lets nothing pass`)
	}
	if l.Calendar != NoCalendar {
		return time.Microsecond, l.checkCalendar()
	}
	if err := checkPeriod(l.Per); err != nil {
		return 0, err
	}
	switch l.Algorithm {
	case FixedWindow:
		if l.Rate > maxExact/2 {
			return 0, tooMuch(l.Rate)
		}
		return time.Microsecond, nil
	case SlidingLog:
		if l.Rate > maxEntries {
			return 0, limitErrorf("a sliding log of %d entries", l.Rate).
				hint(`it keeps one for each take, at most 10,000; a sliding window counts more with little error, as in "20000/s sliding-window slices 10"`)
		}
		return time.Microsecond, nil
	case SlidingWindow:
		return l.windowTick()
	default:
		return l.bucketTick()
	}
}

func (l Limit) checkConcurrency() error {
	if l.Rate < 1 || l.Rate > maxEntries {
		return limitErrorf("%d permits", l.Rate).hint(`there can be 1 to 10,000, as in "20 concurrent"`)
	}
	if l.TTL < time.Millisecond || l.TTL > maxTTL || l.TTL%time.Microsecond != 0 {
		return limitErrorf("a ttl of %v", l.TTL).hint(`it must be from 1ms to 24h in whole microseconds, as in "20 concurrent ttl 1m"`)
	}
	return nil
}

func (l Limit) checkCalendar() error {
	if l.Per != 0 {
		return limitErrorf("both a period of %v and the calendar unit %v", l.Per, l.Calendar).hint("give one of them")
	}
	if int(l.Calendar) >= len(calendarNames) {
		return limitErrorf("unknown calendar unit %d", uint8(l.Calendar)).hint("use one of the constants of the package")
	}
	if l.Rate > maxExact/2 {
		return tooMuch(l.Rate)
	}
	if ownZone(l.Zone) {
		return limitErrorf("the time zone %q", l.Zone).hint(`replicas may differ in it: name the zone, as in "1000/day tz Europe/Vienna"`)
	}
	if _, err := time.LoadLocation(l.Zone); err != nil {
		return limitErrorf("unknown time zone %q", l.Zone).hint(`write an IANA name, as in "1000/day tz Asia/Shanghai"`)
	}
	return nil
}

// checkLease holds a lease to what the bound on it needs; that the limit is a token bucket was asked before.
func (l Limit) checkLease() error {
	if l.Lease == 0 {
		return nil
	}
	if l.Lease < minLease || l.Lease > maxLease || l.Lease%time.Microsecond != 0 {
		return limitErrorf("a lease of %v", l.Lease).hint(`it must be from 1ms to 10s in whole microseconds, as in "600/s burst 100 lease 50ms"`)
	}
	if l.Shards > 1 && l.Burst/int64(l.Shards) < leasePart {
		return limitErrorf("a lease on a burst of %d in each of %d shards", l.Burst/int64(l.Shards), l.Shards).
			hint(`at most a tenth of it is taken ahead, so that it must be at least 10, as in "6000/s burst 1000 shards 8 lease 50ms"`)
	}
	if l.Burst < leasePart {
		return limitErrorf("a lease on a burst of %d", l.Burst).
			hint(`at most a tenth of it is taken ahead, so that it must be at least 10, as in "600/s burst 100 lease 50ms"`)
	}
	return nil
}

// ownZone reports whether a machine may have the zone that another has not, or has otherwise: its own, and the variants
// of the zone database, of which right/ counts leap seconds.
func ownZone(name string) bool {
	switch name {
	case "Local", "localtime", "posixrules":
		return true
	}
	return strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/")
}

func checkPeriod(per time.Duration) error {
	switch {
	case per == 0:
		return limitErrorf("no period").hint(`say how often, as in "10/s"`)
	case per < time.Millisecond:
		return limitErrorf("a period of %v", per).hint(`the shortest is 1ms; one a millisecond is "1000/s"`)
	case per > maxYears:
		return limitErrorf("a period of %v", per).hint(`the longest is 50 years, as in "1/18250day"`)
	case per%time.Microsecond != 0:
		return limitErrorf("a period of %v", per).hint("it must be whole microseconds to be counted exactly")
	}
	return nil
}

func tooMuch(n int64) *LimitError {
	return limitErrorf("%d is too large to be counted exactly", n).hint(`write a smaller number, as in "1000000/s"`)
}

// unused reports the first field that is set though the algorithm has no use for it.
func (l Limit) unused() error {
	is := func(as ...Algorithm) bool { return slices.Contains(as, l.Algorithm) }
	wrong := func(option, belongs string) error {
		return limitErrorf("%s has no meaning for %v", option, l.Algorithm).hint(belongs)
	}
	switch {
	case l.Rate != 0 && is(None, Unlimited):
		return wrong("a rate", `write "none" or "unlimited" alone`)
	case l.Per != 0 && is(None, Unlimited, Concurrency):
		return wrong("a period", `write "none", "unlimited" or "20 concurrent" without one`)
	case l.Calendar != NoCalendar && !is(FixedWindow):
		return limitErrorf("a calendar %v has no constant length, so %v cannot count it", l.Calendar, l.Algorithm).
			hint(fmt.Sprintf(`count it with "1000/%v fixed-window", or give a length in hours, as in "1000/720h"`, l.Calendar))
	case l.Zone != "" && (l.Calendar == NoCalendar || !is(FixedWindow)):
		return limitErrorf("a time zone without a calendar unit").hint(`tz goes with day, week, month or year, as in "1000/day tz Asia/Shanghai"`)
	case l.Burst != 0 && !is(TokenBucket):
		return wrong("burst", `it belongs to token-bucket, as in "10/s burst 20"; a window of N lets N pass at once as it is, a leaky bucket has a queue`)
	case l.Queue != 0 && !is(LeakyBucket):
		return wrong("queue", `it belongs to leaky-bucket, as in "10/s leaky-bucket queue 5"`)
	case l.Slices != 0 && !is(SlidingWindow):
		return wrong("slices", `it belongs to sliding-window, as in "100/min sliding-window slices 6"`)
	case l.Warmup != 0 && !is(TokenBucket):
		return wrong("warmup", `it belongs to token-bucket, as in "100/s warmup 16s"`)
	case l.TTL != 0 && !is(Concurrency):
		return wrong("ttl", `it belongs to permits, as in "20 concurrent ttl 1m"`)
	case l.Lease != 0 && !is(TokenBucket):
		return wrong("lease", `it belongs to token-bucket, as in "600/s burst 100 lease 50ms"; tokens taken ahead from a window would be spent in the next one`)
	case l.Shards != 0 && !l.splits():
		return limitErrorf("%v limits cannot be split into shards", l.Algorithm).
			hint(`token-bucket, fixed-window and sliding-window can, as in "10000/s burst 1000 shards 8"`)
	case l.Shards < 0 || l.Shards > maxShards:
		return limitErrorf("%d shards", l.Shards).hint(`there can be 1 to 256, as in "10000/s burst 1000 shards 8"`)
	case l.Shards > 1 && l.Warmup != 0:
		return limitErrorf("shards with a warmup, which each would begin at another time").
			hint(`leave one of them out, as in "100/s warmup 16s" or "10000/s burst 1000 shards 8"`)
	case l.Burst < 0:
		return limitErrorf("a burst of %d", l.Burst).hint(`it must be at least 1, as in "10/s burst 20"`)
	case l.Queue < 0:
		return limitErrorf("a queue of %d", l.Queue).hint(`it must be at least 0, as in "10/s leaky-bucket queue 5"`)
	case l.Slices < 0 || l.Slices > maxSlices:
		return limitErrorf("%d slices", l.Slices).hint(`there can be 1 to 100, as in "100/min sliding-window slices 6"`)
	case l.Warmup < 0:
		return limitErrorf("a warmup of %v", l.Warmup).hint(`it must be longer than 0, as in "100/s warmup 16s"`)
	}
	return nil
}

// bucketTick finds the tick of a token bucket or leaky bucket; see [Limit.Resolution].
func (l Limit) bucketTick() (time.Duration, error) {
	per := int64(l.Per / time.Microsecond)
	most := max(l.Burst, l.Queue, l.Rate) // before one is added to the queue, which may be the largest integer
	if most > maxExact/4 {
		return 0, tooMuch(most)
	}
	most = max(most, l.Queue+1)
	// The time to fill is most*per/rate microseconds; it must stay within 50 years.
	hi, lo := bits.Mul64(uint64(most), uint64(per))
	if hi >= uint64(l.Rate) {
		return 0, tooSlow(most)
	}
	if fill, _ := bits.Div64(hi, lo, uint64(l.Rate)); fill > uint64(maxYears/time.Microsecond) {
		return 0, tooSlow(most)
	}
	scale := int64(1)
	if l.Warmup > 0 {
		scale = 12 // eight steps from 4/12 to 12/12
		if l.Warmup > maxWarmup || l.Warmup%(warmupSteps*time.Microsecond) != 0 {
			return 0, limitErrorf("a warmup of %v", l.Warmup).hint(`it must be a whole multiple of 8µs and at most a year, as in "100/s warmup 16s"`)
		}
	}
	for tick := int64(1); tick <= per/1000 && per%tick == 0; tick *= 10 {
		if l.Warmup > 0 && int64(l.Warmup/time.Microsecond)%(warmupSteps*tick) != 0 {
			break
		}
		cost := per / tick / gcd(per/tick, l.Rate) * scale
		if hi, lo := bits.Mul64(uint64(4*most), uint64(cost)); hi == 0 && lo <= maxExact {
			return time.Duration(tick) * time.Microsecond, nil
		}
	}
	return 0, limitErrorf("%d tokens per %v cannot be counted exactly", most, l.Per).
		hint(`write a smaller burst or rate, or round numbers that share factors, as in "1000000/s burst 1000000"`)
}

func tooSlow(n int64) *LimitError {
	return limitErrorf("%d tokens would take more than 50 years to come back", n).hint(`write a smaller burst or a higher rate, as in "10/day burst 20"`)
}

// windowTick finds the tick of a sliding window: the smallest for which four times the rate times a slice's ticks is exact.
// Two of the four are what neighbouring windows hold, the rest is room for what a settled reservation cost in excess.
func (l Limit) windowTick() (time.Duration, error) {
	per, k := int64(l.Per/time.Microsecond), int64(l.Slices)
	if per%k != 0 {
		return 0, limitErrorf("%v cannot be cut into %d equal slices of whole microseconds", l.Per, k).
			hint(`choose a number of slices that divides it, as in "100/min sliding-window slices 6"`)
	}
	if l.Rate > maxExact/4 {
		return 0, tooMuch(l.Rate)
	}
	slice := per / k
	for tick := int64(1); tick <= max(per/1000, 1) && slice%tick == 0; tick *= 10 {
		if hi, lo := bits.Mul64(uint64(4*l.Rate), uint64(slice/tick)); hi == 0 && lo <= maxExact {
			return time.Duration(tick) * time.Microsecond, nil
		}
	}
	return 0, tooMuch(l.Rate)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

const (
	// NoLimit is the Limit and the Remaining of a decision that nothing limits.
	NoLimit int64 = math.MaxInt64
	// Never is the RetryAfter of a take that can never pass, and the ResetAfter of what never resets.
	Never time.Duration = math.MaxInt64
)
