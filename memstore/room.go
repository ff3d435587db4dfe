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
	start := rand.IntN(len(s.shards))
	for n := 0; n < len(s.shards) && seen < sample; n++ {
		sh := &s.shards[(start+n)%len(s.shards)]
		sh.mu.Lock()
		now := s.now()
		slot := 0
		if sh.n > 0 {
			slot = rand.IntN(len(sh.slots))
		}
		for left := min(sh.n, sample); left > 0 && seen < sample; slot = sh.next(slot) {
			e := &sh.slots[slot]
			if e.a&live == 0 {
				continue
			}
			left--
			if kept(e.id) {
				continue
			}
			sh.unbind(slot)
			p := sh.policy(slot).params
			st := sh.state(slot)
			t := s.clockOf(p, now)
			p.Load(&st, t, p.Window(t))
			if used, capacity := p.Usage(&st, t); float64(used)/float64(capacity) < least {
				least, victim = float64(used)/float64(capacity), e.id
			}
			seen++
		}
		sh.mu.Unlock()
	}
	if seen == 0 {
		return false
	}
	sh := s.shard(victim)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.find(victim)
	if slot < 0 {
		return false
	}
	sh.remove(slot)
	s.keys.Add(-1)
	if least > 0 {
		s.evicted.Add(1)
	}
	return true
}
