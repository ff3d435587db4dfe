package memstore

import "time"

// sweep forgets, a few shards at a time, the buckets that are as good as new.
func (s *Store) sweep(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for next := 0; ; {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		for range len(s.shards) / sweeps {
			s.sweepShard(&s.shards[next%len(s.shards)])
			next++
		}
		s.reservations.sweep(s.now())
	}
}

// sweepShard looks through a shard, letting go of its lock every so many slots. What moves meanwhile may be missed this
// time, or looked at twice.
func (s *Store) sweepShard(sh *shard) {
	const most = 512 // slots looked at under the lock at a time
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	for slot, n := 0, 1; slot < len(sh.slots); n++ {
		if n%most == 0 {
			sh.mu.Unlock()
			sh.mu.Lock()
			now = s.now()
			if slot >= len(sh.slots) {
				break
			}
		}
		if sh.slots[slot].a&live != 0 && s.idle(sh, slot, now) {
			sh.remove(slot) // another may have come to stand here
			s.keys.Add(-1)
		} else {
			slot++
		}
	}
	sh.shrink()
}

// idle reports whether the bucket in the slot is as good as new.
func (s *Store) idle(sh *shard, slot int, now int64) bool {
	sh.unbind(slot)
	p := sh.policy(slot).params
	st := sh.state(slot)
	t := s.clockOf(p, now)
	return p.IdleAt(&st, t, p.Window(t)) <= t
}
