package server

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	latencySlot  = 5 * time.Second
	latencySlots = 12 // a minute
	// Buckets are a fourth of a doubling wide, from latencyLeast on, so that a quantile is off by a tenth at most.
	latencyPer   = 4
	latencyLeast = 100 * time.Nanosecond
	latencyCells = 112 // up to half a minute
)

// latency tells quantiles of how long calls took in the last minute. It takes no lock: when two find at once that a slot's time
// has come again, a few calls may go uncounted.
type latency struct {
	slots [latencySlots]struct {
		epoch atomic.Int64 // which multiple of latencySlot it counts
		cells [latencyCells]atomic.Int64
	}
}

func (l *latency) saw(now time.Time, took time.Duration) {
	epoch := now.UnixNano() / int64(latencySlot)
	s := &l.slots[epoch%latencySlots]
	if old := s.epoch.Load(); old != epoch && s.epoch.CompareAndSwap(old, epoch) {
		for i := range s.cells {
			s.cells[i].Store(0)
		}
	}
	i := 0
	if took > latencyLeast {
		i = int(math.Log2(float64(took)/float64(latencyLeast)) * latencyPer)
	}
	s.cells[min(i, latencyCells-1)].Add(1)
}

// quantiles returns those of the last minute, in seconds; nil where nothing was called.
func (l *latency) quantiles(now time.Time, qs ...float64) []*float64 {
	epoch := now.UnixNano() / int64(latencySlot)
	var cells [latencyCells]int64
	all := int64(0)
	for i := range l.slots {
		s := &l.slots[i]
		if age := epoch - s.epoch.Load(); age < 0 || age >= latencySlots {
			continue
		}
		for j := range s.cells {
			n := s.cells[j].Load()
			cells[j] += n
			all += n
		}
	}
	out := make([]*float64, len(qs))
	if all == 0 {
		return out
	}
	for i, q := range qs {
		rank, seen := int64(math.Ceil(q*float64(all))), int64(0)
		for j, n := range cells {
			if seen += n; seen >= rank {
				middle := latencyLeast.Seconds() * math.Exp2((float64(j)+.5)/latencyPer)
				out[i] = &middle
				break
			}
		}
	}
	return out
}
