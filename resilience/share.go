package resilience

import (
	"math/bits"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Shares are in thousandths, rounded down, so that they add up to at most the whole.
const whole = 1000

// ownPart and evenPart are how much of a limit is divided by demand, and how much evenly.
const (
	ownPart  = 800
	evenPart = 200
)

// tables are the last tables in which this replica was, the latest first; immutable. There are two, and more until the latest
// two are of seconds that follow each other and lack nobody. Who misses a second reads nothing in it either and is not in its
// table: until two seconds later it has only tables from before, and shares add up by a table that all have.
type tables []*tidegate.Table

// maxTables bounds them: one that does not beat for longer has expired.
const maxTables = tidegate.ReplicaTTL + 2

// with returns the tables with a later one before them.
func (ts tables) with(t *tidegate.Table) tables {
	next := append(tables{t}, ts...)
	if len(next) > 2 && everybodyIn(next[0]) && everybodyIn(next[1]) && next[0].Second == next[1].Second+1 {
		return next[:2]
	}
	return next[:min(len(next), maxTables)]
}

// everybodyIn reports whether no replica is missing in a table that was there when it was read.
func everybodyIn(t *tidegate.Table) bool { return t.Beaten >= t.Replicas }

// shareBy returns the share of a rule by one table.
func shareBy(t *tidegate.Table, rule string) int64 {
	n := max(1, t.Beaten)
	total := t.Total[rule]
	if total <= 0 {
		return whole / n
	}
	own := min(t.Own[rule], total)
	// (ownPart·own/total + evenPart/n), rounded down once: the parts over one denominator.
	hi, lo := bits.Mul64(uint64(own), uint64(ownPart*n))
	ehi, elo := bits.Mul64(uint64(total), evenPart)
	lo, carry := bits.Add64(lo, elo, 0)
	hi += ehi + carry
	dhi, d := bits.Mul64(uint64(total), uint64(n))
	if dhi != 0 || hi >= d {
		return whole / n // nothing is counted so high
	}
	q, _ := bits.Div64(hi, lo, d)
	return int64(min(q, whole))
}

// share returns the part of a rule's limit that this replica keeps to without the store, in thousandths, at least one.
func (s *Store) share(rule string, p tidegate.FailurePolicy) int64 {
	if p.Share > 0 {
		return min(whole, max(1, int64(p.Share*whole+1e-6)))
	}
	t := s.tables.Load()
	if t == nil {
		return max(1, whole/max(1, int64(s.cfg.Replicas), s.known.Load()))
	}
	share := int64(whole)
	for _, t := range *t {
		share = min(share, shareBy(t, rule))
	}
	return max(1, share)
}

// limits keeps the limits that were scaled, so that a store finds the same pointer again.
type limits struct {
	mu     sync.RWMutex
	scaled map[scaledLimit]*tidegate.Limit
}

type scaledLimit struct {
	limit tidegate.Limit
	share int64
}

// maxLimits bounds them for a program that changes limits all day; they start anew beyond.
const maxLimits = 10_000

// of returns the part of a limit that a share is.
func (ls *limits) of(l *tidegate.Limit, share int64) (*tidegate.Limit, error) {
	k := scaledLimit{*l, share}
	ls.mu.RLock()
	s := ls.scaled[k]
	ls.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	v := scale(l.Normalize(), share)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if s = ls.scaled[k]; s == nil {
		if ls.scaled == nil || len(ls.scaled) >= maxLimits {
			ls.scaled = map[scaledLimit]*tidegate.Limit{}
		}
		s = &v
		ls.scaled[k] = s
	}
	return s, nil
}

// maxPer is the longest period of a limit.
const maxPer = 50 * 365 * 24 * time.Hour

// scale returns a valid, normalized limit times so many thousandths: never more than that, but at least one token. Warm-ups
// are left out, since nothing of a store's outage is cold; so are leases and shards, of which a local store knows nothing.
func scale(l tidegate.Limit, share int64) tidegate.Limit {
	l.Warmup, l.Lease, l.Shards = 0, 0, 0
	if share >= whole {
		return l
	}
	switch l.Algorithm {
	case tidegate.FixedWindow, tidegate.SlidingWindow, tidegate.SlidingLog, tidegate.Concurrency:
		l.Rate = max(1, part(l.Rate, share))
		return l
	case tidegate.None, tidegate.Unlimited:
		return l
	case tidegate.TokenBucket:
		l.Burst = max(1, part(l.Burst, share))
	case tidegate.LeakyBucket:
		l.Queue = part(l.Queue, share)
	}
	return slower(l, share)
}

// part returns so many thousandths, rounded down.
func part(n, share int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(share))
	q, _ := bits.Div64(hi, lo, whole)
	return int64(q)
}

// slower returns a bucket's limit with its rate times so many thousandths: exact if that can be counted, else a little less.
func slower(l tidegate.Limit, share int64) tidegate.Limit {
	g := gcd(l.Rate*share, whole)
	exact := l
	if l.Rate <= 1<<52 && l.Per <= maxPer/time.Duration(whole/g) {
		exact.Rate, exact.Per = l.Rate*share/g, l.Per*time.Duration(whole/g)
		if exact.Validate() == nil {
			return exact
		}
	}
	less := l
	if less.Rate = part(l.Rate, share); less.Rate > 0 {
		if less.Validate() == nil {
			return less
		}
	} else if periods := (whole + l.Rate*share - 1) / (l.Rate * share); l.Per <= maxPer/time.Duration(periods) {
		less.Rate, less.Per = 1, l.Per*time.Duration(periods) // one token in a whole number of periods
	} else {
		less.Rate, less.Per = 1, maxPer
	}
	if less.Validate() == nil {
		return less
	}
	return tidegate.Limit{Algorithm: tidegate.TokenBucket, Rate: 1, Per: maxPer, Burst: 1}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
