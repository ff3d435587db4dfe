package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// every returns n arrivals that begin at a moment and are so far apart.
func every(gap time.Duration, n int, from time.Duration) (a arrivals) {
	for i := range n {
		a = append(a, from+time.Duration(i)*gap)
	}
	return a
}

func TestSlidingWindows(t *testing.T) {
	for name, c := range map[string]struct {
		a        arrivals
		from, to time.Duration
		want     windows
	}{
		"nothing":             {nil, 0, 2 * time.Second, windows{}},
		"no windows":          {every(ms, 10, 0), time.Second, 0, windows{}},
		"one window":          {every(100*ms, 10, 0), 0, 0, windows{peak: 10, mean: 10}},
		"its end is not in":   {arrivals{0, time.Second}, 0, 0, windows{peak: 1, mean: 1}},
		"even":                {every(10*ms, 1000, 0), 0, 9 * time.Second, windows{peak: 100, mean: 100}},
		"at one moment":       {arrivals{5 * time.Second, 5 * time.Second}, 0, 9 * time.Second, windows{peak: 2, mean: 2. / 9, stddev: math.Sqrt(4./9 - 4./81)}},
		"a burst before":      {append(every(0, 50, 0), every(10*ms, 100, time.Second)...), time.Second, 1 * time.Second, windows{peak: 100, mean: 100}},
		"half of the time":    {append(every(0, 10, 0), every(0, 10, 2*time.Second)...), 0, 2 * time.Second, windows{peak: 10, mean: 5, stddev: 5}},
		"astride a boundary":  {append(every(0, 60, 900*ms), every(0, 60, 1800*ms)...), 0, 2 * time.Second, windows{peak: 120, mean: 0.9*60/2 + 60/2, stddev: math.Sqrt(531)}},
		"after the last one":  {every(ms, 100, 0), 5 * time.Second, 6 * time.Second, windows{}},
		"before the first":    {every(ms, 100, 9*time.Second), 0, time.Second, windows{}},
		"peak at the first":   {append(every(0, 99, time.Second), 5*time.Second), time.Second, 3 * time.Second, windows{peak: 99}},
		"peak at the very to": {every(0, 7, 3*time.Second-1), 0, 2 * time.Second, windows{peak: 7}},
	} {
		got := c.a.sliding(c.from, c.to)
		if got.peak != c.want.peak || math.Abs(got.mean-c.want.mean) > 1e-3 || math.Abs(got.stddev-c.want.stddev) > 1e-2 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Random arrivals at whole milliseconds against counting in each window that begins at one, or a nanosecond beside.
func TestSlidingWindowsAgainstCounting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		var a arrivals
		for range r.IntN(3000) {
			a = append(a, time.Duration(r.IntN(6000))*ms)
		}
		slices.Sort(a)
		from := time.Duration(r.IntN(3000)) * ms
		to := from + time.Duration(r.IntN(2500))*ms
		count := func(begin time.Duration) (n int) {
			for _, at := range a {
				if at >= begin && at < begin+width {
					n++
				}
			}
			return n
		}
		var want windows
		var sum float64
		for begin := from; begin <= to; begin += ms {
			want.peak = max(want.peak, count(begin))
			if begin < to {
				n := count(begin + 1) // which all have that begin within this millisecond
				want.peak = max(want.peak, n)
				sum += float64(n)
			}
		}
		want.mean = float64(want.peak)
		if to > from {
			want.mean = sum / float64((to-from)/ms)
		}
		if got := a.sliding(from, to); got.peak != want.peak || math.Abs(got.mean-want.mean) > 1e-6 {
			t.Fatalf("from %v to %v: %+v, want %+v", from, to, got, want)
		}
	}
}

func TestBins(t *testing.T) {
	a := arrivals{0, 99 * ms, 100 * ms, 250 * ms, 400 * ms, 2 * time.Second}
	if got := a.bins(100*ms, 350*ms); !slices.Equal(got, []int{2, 1, 1, 2}) {
		t.Errorf("%v", got)
	}
	if got := arrivals(nil).bins(100*ms, 0); !slices.Equal(got, []int{0}) {
		t.Errorf("%v", got)
	}
}
