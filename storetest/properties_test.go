package storetest

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"pgregory.net/rapid"
)

// These are the properties of the groups exactness and bounds once more, with a library that reduces a failure to the
// smallest limit and the shortest trace that show it. They run on the embedded store: what they find is arithmetic.

// drawn is a limit and its bucket on a store of its own.
type drawn struct {
	*bucket
	rt    *rapid.T
	limit *tidegate.Limit
}

func draw(t *testing.T, rt *rapid.T, kind string) drawn {
	t.Helper()
	small := rapid.Int64Range(1, 20)
	number := rapid.OneOf(small, rapid.Int64Range(1, 2_000), rapid.Int64Range(1, 1_000_000))
	l := rapid.Custom(func(rt *rapid.T) tidegate.Limit {
		l := tidegate.Limit{Rate: number.Draw(rt, "rate")}
		l.Per = time.Duration(rapid.OneOf(
			rapid.SampledFrom([]int64{1000, 1_000_000, 1_300_000, 60_000_000, 86_400_000_000}),
			rapid.Int64Range(1000, 5000),
			rapid.Int64Range(1000, 100_000_000),
		).Draw(rt, "period in µs")) * us
		switch kind {
		case "token bucket":
			l.Burst = number.Draw(rt, "burst")
		case "warm-up":
			l.Burst = number.Draw(rt, "burst")
			l.Warmup = 8 * ms * time.Duration(rapid.Int64Range(1, 1_000_000).Draw(rt, "step in ms"))
		case "leaky bucket":
			l.Algorithm, l.Queue = tidegate.LeakyBucket, rapid.Int64Range(0, 30).Draw(rt, "queue")
		case "fixed window":
			l.Algorithm = tidegate.FixedWindow
		case "sliding window":
			l.Algorithm, l.Slices = tidegate.SlidingWindow, rapid.IntRange(1, 10).Draw(rt, "slices")
		case "sliding log":
			l.Algorithm, l.Rate = tidegate.SlidingLog, small.Draw(rt, "N")
		}
		return l
	}).Filter(func(l tidegate.Limit) bool { return l.Validate() == nil && fillTime(&l) <= longest }).Draw(rt, "limit")
	h := &Harness{New: func(_ *testing.T, now func() time.Time) tidegate.Store {
		return memstore.New(&memstore.Config{Now: now, SweepEvery: -1})
	}}
	x := newTrial(t, rt, h, &testCase{rule: ruleExact})
	x.advance(time.Duration(rapid.Int64Range(0, 5_000_000).Draw(rt, "start in µs")) * us)
	return drawn{x.bucketOf(&l), rt, &l}
}

// gap draws how long to wait.
func (b drawn) gap(d tidegate.Decision) {
	token := max(1, int64(fillTime(b.limit)/us)/b.limit.Capacity())
	gaps := []*rapid.Generator[int64]{
		rapid.Just[int64](0), rapid.Int64Range(0, 3*token), rapid.Just(int64(d.ResetAfter / us)),
	}
	if d.RetryAfter != tidegate.Never {
		gaps = append(gaps, rapid.Just(int64(d.RetryAfter/us)))
	}
	b.x.advance(time.Duration(rapid.OneOf(gaps...).Draw(b.rt, "gap in µs")) * us)
}

func (b drawn) cost() int64 {
	return rapid.OneOf(rapid.Just[int64](1), rapid.Int64Range(0, b.limit.Capacity()+1)).Draw(b.rt, "cost")
}

func TestArithmetic(t *testing.T) {
	for _, kind := range kinds {
		f := models[kind]
		if f == nil {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b := draw(t, rt, kind)
				m := f(b.x, b.limit)
				for range rapid.IntRange(1, 30).Draw(rt, "takes") {
					cost := b.cost()
					want := m.decide(b.x.now().UnixMicro(), cost)
					d := b.take(cost)
					if say(d) != say(want) {
						rt.Fatalf("a cost of %d at start+%v: got %s, want %s", cost, b.x.elapsed(), say(d), say(want))
					}
					b.gap(d)
				}
			})
		})
	}
}

func TestUpperBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := draw(t, rt, "token bucket")
		var trace []admission
		for range rapid.IntRange(1, 40).Draw(rt, "takes") {
			cost := max(1, b.cost())
			d := b.take(cost)
			if d.Allowed {
				trace = append(trace, admission{b.x.now(), cost})
			}
			b.gap(d)
		}
		if over := overBound(b.limit, b.x.resolution(b.limit), trace, 0); over != "" {
			rt.Fatal(over)
		}
	})
}

func TestLowerBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := draw(t, rt, "token bucket")
		if b.limit.Burst < 2 || b.limit.Burst > 50 {
			rt.Skip("too many takes")
		}
		tick := b.x.resolution(b.limit)
		widest := int64(float64(b.limit.Per/us) * float64(b.limit.Burst-1) / float64(b.limit.Rate))
		from, admitted := b.x.now(), b.admit(100)
		for range rapid.IntRange(1, 20).Draw(rt, "times") {
			b.x.advance(time.Duration(rapid.Int64Range(0, widest).Draw(rt, "gap in µs")) * us)
			admitted += b.admit(100)
		}
		passed := time.Duration(b.x.now().UnixMicro()/int64(tick/us)-from.UnixMicro()/int64(tick/us)) * tick
		if due := b.limit.Burst + accrued(b.limit, passed); admitted < due-1 || admitted > due {
			rt.Fatalf("%d were admitted in %v: %d are due", admitted, passed, due)
		}
	})
}
