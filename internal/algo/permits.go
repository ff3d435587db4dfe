package algo

import (
	"slices"
	"sort"
)

// Permits: who is in flight, and until when if nobody renews.
//
// State: a and b as for the sliding log.

type permit struct {
	end int64 // in the bucket's own time
	id  string
}

// permitsExpired returns how many permits, of the first to end, have ended.
func permitsExpired(s *State, now int64) int {
	if s.lists == nil {
		return 0
	}
	return sort.Search(len(s.lists.permits), func(i int) bool { return s.lists.permits[i].end > now+s.a })
}

func (s *State) held() []permit {
	if s.lists == nil {
		return nil
	}
	return s.lists.permits
}

func (p *Params) permitsCheck(s *State, r Request, now int64) Verdict {
	gone := permitsExpired(s, now)
	live := int64(len(s.held()) - gone)
	if live+r.Cost <= p.n {
		return Verdict{OK: true}
	}
	// Enough must end: of more than there are (the limit was lowered), all.
	i := min(gone+int(live+r.Cost-p.n), len(s.held())) - 1
	return Verdict{Retry: s.held()[i].end - now - s.a}
}

func (p *Params) permitsCharge(s *State, r Request, now int64) {
	if s.lists == nil {
		s.lists = &lists{}
	}
	s.lists.permits = slices.Delete(s.lists.permits, 0, permitsExpired(s, now))
	end := now + s.a + p.width
	i := sort.Search(len(s.lists.permits), func(i int) bool { return s.lists.permits[i].end > end })
	for range r.Cost {
		s.lists.permits = slices.Insert(s.lists.permits, i, permit{end, r.ID})
	}
}

// Release lets go of the permits of id of a loaded state, and reports whether there were any that had not ended.
func (p *Params) Release(s *State, id string, now int64) bool {
	if s.lists == nil {
		return false
	}
	live := false
	t := now + s.a
	s.lists.permits = slices.DeleteFunc(s.lists.permits, func(x permit) bool {
		live = live || x.id == id && x.end > t
		return x.id == id
	})
	s.used = len(s.lists.permits) > 0
	return live
}

// Renew holds the permits of id of a loaded state that have not ended for the limit's TTL from now, and reports whether
// there were any.
func (p *Params) Renew(s *State, id string, now int64) bool {
	t := now + s.a
	n := 0
	for _, x := range s.held() {
		if x.id == id && x.end > t {
			n++
		}
	}
	if n == 0 {
		return false
	}
	s.lists.permits = slices.DeleteFunc(s.lists.permits, func(x permit) bool { return x.id == id })
	p.permitsCharge(s, Request{Cost: int64(n), ID: id}, now)
	return true
}

func (p *Params) permitsDescribe(s *State, now int64) (remaining, reset int64) {
	held := s.held()
	live := int64(len(held) - permitsExpired(s, now))
	if live > 0 {
		reset = held[len(held)-1].end - now - s.a
	}
	return max(0, p.n-live), reset
}
