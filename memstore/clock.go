package memstore

import (
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// leastCoarse is the shortest time in which a coarse clock is read again.
const leastCoarse = 100 * time.Microsecond

// now returns the store's clock, in µs. Unless it is one of Config.Now, it never goes back.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return s.exact()
}

// exact reads the default clock, in µs.
func (s *Store) exact() int64 { return s.base + int64(time.Since(s.start)/time.Microsecond) }

// coarsen lets takes decide by what the default clock said at most so long ago.
func (s *Store) coarsen(every time.Duration) {
	var last atomic.Int64
	last.Store(s.base)
	s.clock = last.Load
	s.running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				last.Store(s.exact())
			}
		}
	})
}

// clockOf returns the moment that a limit is decided at: calendar windows follow the wall clock, wherever it steps.
func (s *Store) clockOf(p *algo.Params, now int64) int64 {
	if p.Calendar() {
		return s.wall()
	}
	return now
}
