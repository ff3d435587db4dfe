package memstore

import (
	"math"
	"math/rand/v2"
)

// makeRoom forgets a bucket that is not kept if there are too many: the fullest of a few, so that what is forgotten
// matters least.
func (s *Store) makeRoom(kept func(id) bool) {
	const tries = 16 // others may be faster with the one that was found
	for n := 0; n < tries && s.keys.Load() > s.maxKeys; n++ {
		if s.forgetOne(kept) {
			return
		}
	}
}

// forgetOne reports whether it forgot a bucket.
func (s *Store) forgetOne(kept func(id) bool) bool {
	const sample = 5
	var victim id
	least, seen := math.Inf(1), 0
	start := rand.IntN(shardCount)
	for n := 0; n < shardCount && seen < sample; n++ {
		sh := &s.shards[(start+n)%shardCount]
		sh.mu.Lock()
		now := s.now()
		looked := 0
		for i, b := range sh.buckets {
			if looked++; looked > sample {
				break
			}
			if kept(i) {
				continue
			}
			p := b.policy.params
			st := b.state
			t := s.clockOf(p, now)
			p.Load(&st, t, p.Window(t))
			if used, capacity := p.Usage(&st, t); float64(used)/float64(capacity) < least {
				least, victim = float64(used)/float64(capacity), i
			}
			if seen++; seen == sample {
				break
			}
		}
		sh.mu.Unlock()
	}
	if seen == 0 {
		return false
	}
	sh := s.shard(victim)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, ok := sh.buckets[victim]; !ok {
		return false
	}
	delete(sh.buckets, victim)
	s.keys.Add(-1)
	if least > 0 {
		s.evicted.Add(1)
	}
	return true
}
