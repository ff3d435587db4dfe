package memstore

import (
	"math"
	"math/rand/v2"
)

// makeRoom forgets a bucket that is not kept if there are too many: of a few that are sampled, the one whose loss would let
// the least pass. That is the fullest; but what nobody has asked for again since it was made or last sampled is not likely to
// be asked for soon, and counts as a quarter of what it has used. So a hot key at its limit stays when millions of others come
// once each, even where once is all that the limit allows them.
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
			used, capacity := p.Usage(&st, t)
			loss := float64(used) / float64(capacity)
			if e.b&asked == 0 {
				loss /= 4
			}
			e.b &^= asked
			if loss < least {
				least, victim = loss, e.id
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
