package experiment

import (
	"math"
	"time"
)

// arrivals are when requests came, from the start of a run, in ascending order.
type arrivals []time.Duration

// width is that of the windows in which arrivals are counted.
const width = time.Second

// windows is what sliding windows hold.
type windows struct {
	peak         int // the most in any
	mean, stddev float64
}

// sliding tells of all windows that begin from one moment to another, both included: there is one for each nanosecond.
// A window holds what comes at its beginning, and not what comes at its end.
//
// How many arrivals a window holds changes only where one enters it, which is a width before it came, or has left it. In
// between the windows are alike, and count for as long as they are.
func (a arrivals) sliding(from, to time.Duration) windows {
	if to < from {
		return windows{}
	}
	entered, left := 0, 0
	for entered < len(a) && a[entered] < from+width {
		entered++
	}
	for left < entered && a[left] < from {
		left++
	}
	w := windows{peak: entered - left}
	var sum, squares float64
	for begin := from; begin < to; {
		// Windows that begin after begin and up to next hold the same.
		for entered < len(a) && a[entered]-width <= begin {
			entered++
		}
		for left < entered && a[left] <= begin {
			left++
		}
		next := to
		if entered < len(a) {
			next = min(next, a[entered]-width)
		}
		if left < len(a) {
			next = min(next, a[left])
		}
		n := entered - left
		w.peak = max(w.peak, n)
		sum += float64(n) * float64(next-begin)
		squares += float64(n) * float64(n) * float64(next-begin)
		begin = next
	}
	if to == from {
		w.mean = float64(w.peak)
		return w
	}
	w.mean = sum / float64(to-from)
	w.stddev = math.Sqrt(max(0, squares/float64(to-from)-w.mean*w.mean))
	return w
}

// bins counts the arrivals of each span of a length, up to an end. What comes later is counted with the last.
func (a arrivals) bins(length, end time.Duration) []int {
	counts := make([]int, max(1, int((end+length-1)/length)))
	for _, at := range a {
		counts[min(int(at/length), len(counts)-1)]++
	}
	return counts
}
