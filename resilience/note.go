package resilience

import (
	"math"

	"github.com/tidegate-go/tidegate"
)

// counted reports whether a charge is of a bucket of which what remains and what is owed is remembered.
func counted(c *tidegate.Charge) bool {
	switch c.Limit.Algorithm {
	case tidegate.None, tidegate.Unlimited, tidegate.Concurrency:
		return false
	case tidegate.TokenBucket, tidegate.LeakyBucket, tidegate.FixedWindow, tidegate.SlidingWindow, tidegate.SlidingLog:
	}
	return true
}

// note remembers what the store said of the charges' keys when it was asked at a time, and counts what it admitted.
func (s *Store) note(charges []tidegate.Charge, decisions []tidegate.Decision, asked int64) {
	admitted := allowed(charges, decisions)
	now, staged := s.now(), s.staged.Load()
	for i := range charges {
		c, d := &charges[i], &decisions[i]
		var t *tally
		if counted(c) && d.Limit > 0 && (d.Source == tidegate.SourceStore || d.Source == tidegate.SourceDeniedCache) {
			t = s.noteKey(c, d, asked, now, staged)
		}
		switch {
		case !admitted || !d.Allowed || c.Cost <= 0:
		case t != nil:
			t.Add(c.Cost)
		default:
			s.admitted(c)
		}
	}
}

// noteKey remembers what the store said of one key, and returns the tally of its rule if that is at hand.
func (s *Store) noteKey(c *tidegate.Charge, d *tidegate.Decision, asked, now int64, staged bool) *tally {
	told := d.Remaining
	if capacity := c.Limit.Capacity(); d.Limit != capacity { // a shard's, or another version's: the same part of it
		told = int64(float64(told) / float64(d.Limit) * float64(capacity))
	}
	full := int64(math.MaxInt64)
	if int64(d.ResetAfter) < math.MaxInt64-now {
		full = now + int64(d.ResetAfter)
	}
	sh, m := s.memories.lock(c.Rule, c.Key)
	if m == nil {
		if full <= now {
			sh.mu.Unlock()
			return nil
		}
		m = s.memories.add(sh, c, now)
	}
	lives := s.lives.Load()
	// Of calls that overlapped, that was decided later of which less remains.
	if asked >= m.at || lives != m.lives || c.Limit != m.limit || told < m.remaining(now) {
		m.limit, m.told, m.at, m.full, m.lives = c.Limit, told, now, full, lives
	}
	if !staged {
		m.begun = 0 // what failed before was not an outage, or is over
	}
	if m.tally == nil {
		m.tally = s.demand.of(c.Rule)
	}
	t := m.tally
	sh.mu.Unlock()
	return t
}

// allowed reports whether every charge that is not in shadow is allowed, so that the take was charged.
func allowed(charges []tidegate.Charge, decisions []tidegate.Decision) bool {
	for i := range charges {
		if !charges[i].Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}
