package algo

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Kind is how a limit is counted. Token bucket, leaky bucket and warm-up are one kind.
type Kind uint8

// The kinds, with the letter that begins their text in a store.
const (
	Bucket Kind = iota
	Fixed
	Sliding
	Log
	Permits
	None
	Unlimited
)

// Letter is the first letter of the kind's [Params.Spec].
func (k Kind) Letter() byte { return "bfwlpnu"[k] }

const (
	// top bounds what is counted: half of the integers that Lua's numbers hold exactly, so that a sum of two is exact.
	top = 1 << 52
	// Never stands for a time that does not come.
	Never = 1<<63 - 1
	// century bounds the debt of a bucket: what would take longer to pay is not counted.
	century = int64(100*365*24*time.Hour) / 1000
	// steps is the number of equal steps in which a warming bucket's rate climbs from 4/12 to 12/12.
	steps = 8
)

// Params is a limit, compiled to integers. It may be shared, not copied.
type Params struct {
	Kind     Kind
	Capacity int64 // what Remaining counts down from

	// Every kind but permits, none and unlimited.
	tick int64 // µs per tick; 1 but for buckets and sliding windows

	// Bucket. One token costs cost units and each tick gives gain units back (while warming gain*(4+step)/12).
	cost, gain int64
	size       int64 // units that can be used at once
	debt       int64 // units beyond size that a leaky bucket lets wait
	most       int64 // units beyond which debt is not counted
	step       int64 // ticks of one step of the warm-up; 0 for none
	plain      bool  // a bucket without a warm-up, for which there are the next three
	perCost    divisor
	perGain    divisor
	perTick    divisor

	// Fixed and sliding windows, log and permits.
	n        int64 // N
	width    int64 // ticks: of the window, of a slice, of the log; the TTL of a permit
	slices   int64
	calendar tidegate.Calendar
	zone     *time.Location
	window   atomic.Pointer[Window] // of the calendar, as last worked out

	// Spec is the text by which a stored state names its limit, and which Lua reads the numbers from.
	Spec string
}

// Compile compiles a limit. The error is that of [tidegate.Limit.Validate].
//
// Leases and shards are not in it: a store compiles the limit of each shard, and a bucket counts what is taken ahead as
// it does what is spent, so that a lease can come and go without a change of what buckets hold.
func Compile(l tidegate.Limit) (*Params, error) {
	tick, err := l.Resolution()
	if err != nil {
		return nil, err
	}
	l = l.Normalize()
	p := &Params{Capacity: l.Capacity(), tick: int64(tick / time.Microsecond), n: l.Rate}
	per := int64(l.Per / time.Microsecond)
	switch l.Algorithm {
	case tidegate.None:
		p.Kind, p.Spec = None, "n"
	case tidegate.Unlimited:
		p.Kind, p.Spec = Unlimited, "u"
	case tidegate.FixedWindow:
		p.Kind, p.width = Fixed, per
		if l.Calendar == tidegate.NoCalendar {
			p.Spec = fmt.Sprintf("f %d %d", p.n, p.width)
			break
		}
		p.calendar = l.Calendar
		if p.zone, err = time.LoadLocation(l.Zone); err != nil {
			return nil, err
		}
		p.Spec = fmt.Sprintf("f %d 0 %s %s", p.n, l.Calendar, l.Zone)
	case tidegate.SlidingWindow:
		p.Kind, p.slices = Sliding, int64(l.Slices)
		p.width = per / p.tick / p.slices
		p.Spec = fmt.Sprintf("w %d %d %d %d", p.n, p.width, p.tick, p.slices)
	case tidegate.SlidingLog:
		p.Kind, p.width = Log, per
		p.Spec = fmt.Sprintf("l %d %d", p.n, p.width)
	case tidegate.Concurrency:
		p.Kind, p.width = Permits, int64(l.TTL/time.Microsecond)
		p.Spec = fmt.Sprintf("p %d %d", p.n, p.width)
	default: // token bucket and leaky bucket
		p.compileBucket(l, per)
	}
	return p, nil
}

// compileBucket reduces rate per period, so that one token costs the reduced period and each tick gives the reduced rate.
func (p *Params) compileBucket(l tidegate.Limit, per int64) {
	g := gcd(per/p.tick, l.Rate)
	p.cost, p.gain = per/p.tick/g, l.Rate/g
	burst := l.Burst
	if l.Algorithm == tidegate.LeakyBucket {
		burst = 1
	}
	if l.Warmup > 0 {
		p.step = int64(l.Warmup/time.Microsecond) / steps / p.tick
		p.cost, p.gain = p.cost*12, p.gain*12
	}
	p.size, p.debt = burst*p.cost, l.Queue*p.cost
	p.most = top
	if hi, lo := bits.Mul64(uint64(p.gain), uint64(century/p.tick)); hi == 0 && lo < top {
		p.most = int64(lo)
	}
	if p.step == 0 {
		p.plain = true
		p.perCost, p.perGain, p.perTick = newDivisor(p.cost), newDivisor(p.gain), newDivisor(p.tick)
	}
	p.Spec = fmt.Sprintf("b %d %d %d %d %d %d %d", p.cost, p.gain, p.size, p.debt, p.most, p.step, p.tick)
}

// MaxWaits reports whether the kind has reservations.
func (p *Params) MaxWaits() bool { return p.Kind != Log && p.Kind != Permits }

// Calendar reports whether the windows follow a calendar, so that [Window]s must be made with its boundaries.
func (p *Params) Calendar() bool { return p.calendar != tidegate.NoCalendar }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mulDiv returns a*b/c, rounded down, or up if asked, but top at most. All are not negative and c is not 0.
func mulDiv(a, b, c int64, up bool) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return top
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if up && r > 0 {
		q++
	}
	return int64(min(q, top))
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
