package resilience

import (
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// memory is what is remembered of a key: what the store last said of it, and what it is owed.
type memory struct {
	limit *tidegate.Limit // as the store was last asked with
	told  int64           // what remained then
	at    int64           // ns: when
	full  int64           // ns: when the bucket is as good as new, if nobody takes
	lives uint32          // of which life of the store's data that is

	begun  uint32 // the outage for which the fallback bucket was begun
	debts  []debt
	owing  bool     // whether it counts among the keys with debts, be they just being paid
	paying *payment // that is under way
}

// debt is what a key owes for an outage.
type debt struct {
	charge tidegate.Charge // names the key, under the limit of the store's bucket
	// local and charged name local buckets: what is in use of the one and not of the other is owed.
	local, charged tidegate.Charge
	left           int64 // tokens on top of that
}

// remaining returns what remains if nobody has taken since the store last told.
func (m *memory) remaining(now int64) int64 {
	capacity := m.limit.Capacity()
	if now >= m.full {
		return capacity
	}
	back := int64(0)
	switch {
	case m.limit.Algorithm == tidegate.TokenBucket && m.limit.Warmup == 0, m.limit.Algorithm == tidegate.LeakyBucket:
		hi, lo := bits.Mul64(uint64(m.limit.Rate), uint64(max(0, now-m.at)))
		if hi >= uint64(m.limit.Per) {
			return capacity
		}
		q, _ := bits.Div64(hi, lo, uint64(m.limit.Per))
		back = int64(min(q, uint64(capacity)))
	default: // windows come back at once, or in a way that what was told does not say
	}
	return min(capacity, m.told+back)
}

type bucket struct{ rule, key string }

const memoryShards = 64

// memories keeps what is remembered of keys, bounded.
type memories struct {
	seed   maphash.Seed
	room   int          // in a shard
	owing  atomic.Int64 // keys with debts
	forgot atomic.Int64 // debts that were forgotten
	next   int          // the shard to sweep; the heartbeat's
	shards [memoryShards]memoryShard
}

type memoryShard struct {
	mu   sync.Mutex
	keys map[bucket]*memory
	_    [40]byte // keeps two shards' locks out of one cache line
}

func (ms *memories) init(keys int) {
	ms.seed = maphash.MakeSeed()
	ms.room = max(1, keys/memoryShards)
	for i := range ms.shards {
		ms.shards[i].keys = map[bucket]*memory{}
	}
}

func (ms *memories) shard(rule, key string) *memoryShard {
	return &ms.shards[(maphash.String(ms.seed, key)+31*maphash.String(ms.seed, rule))%memoryShards]
}

// of returns what is remembered of a key, newly made if there is nothing. The shard is locked.
func (ms *memories) of(sh *memoryShard, c *tidegate.Charge, now int64) *memory {
	name := bucket{c.Rule, c.Key}
	m := sh.keys[name]
	if m == nil {
		if len(sh.keys) >= ms.room {
			ms.evict(sh, now)
		}
		m = &memory{limit: c.Limit, told: c.Limit.Capacity(), full: math.MinInt64}
		// The caller's strings may be parts of something large that shall not stay for the sake of a name.
		sh.keys[bucket{strings.Clone(c.Rule), strings.Clone(c.Key)}] = m
	}
	return m
}

// evict makes room: of a few, the one goes that owes nothing and has most remaining, if there is one.
func (ms *memories) evict(sh *memoryShard, now int64) {
	const few = 8
	var worst bucket
	least, n := math.Inf(1), 0
	for name, m := range sh.keys { // in an order that the map chooses at random
		matters := 1 - float64(m.remaining(now))/float64(max(1, m.limit.Capacity()))
		if len(m.debts) > 0 || m.paying != nil {
			matters += 2
		}
		if matters < least {
			worst, least = name, matters
		}
		if n++; n == few || least <= 0 {
			break
		}
	}
	ms.forget(sh, worst)
}

// forget drops a key. The shard is locked.
func (ms *memories) forget(sh *memoryShard, name bucket) {
	m := sh.keys[name]
	if m == nil {
		return
	}
	if m.owing {
		m.owing = false
		ms.owing.Add(-1)
	}
	ms.forgot.Add(int64(len(m.debts)))
	delete(sh.keys, name)
}

// sweep forgets, in one shard, the keys that are as good as new and owe nothing.
func (ms *memories) sweep(now int64) {
	sh := &ms.shards[ms.next%memoryShards]
	ms.next++
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for name, m := range sh.keys {
		if now >= m.full && len(m.debts) == 0 && m.paying == nil {
			delete(sh.keys, name)
		}
	}
}

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
		if admitted && d.Allowed && c.Cost > 0 {
			s.admitted(c)
		}
		if !counted(c) || d.Limit <= 0 || d.Source != tidegate.SourceStore && d.Source != tidegate.SourceDeniedCache {
			continue
		}
		told := d.Remaining
		if capacity := c.Limit.Capacity(); d.Limit != capacity { // a shard's, or another version's: the same part of it
			told = int64(float64(told) / float64(d.Limit) * float64(capacity))
		}
		full := int64(math.MaxInt64)
		if int64(d.ResetAfter) < math.MaxInt64-now {
			full = now + int64(d.ResetAfter)
		}
		sh := s.memories.shard(c.Rule, c.Key)
		sh.mu.Lock()
		if m := sh.keys[bucket{c.Rule, c.Key}]; m != nil || full > now {
			m = s.memories.of(sh, c, now)
			lives := s.lives.Load()
			// Of calls that overlapped, that was decided later of which less remains.
			if asked >= m.at || lives != m.lives || c.Limit != m.limit || told < m.remaining(now) {
				m.limit, m.told, m.at, m.full, m.lives = c.Limit, told, now, full, lives
			}
			if !staged {
				m.begun = 0 // what failed before was not an outage, or is over
			}
		}
		sh.mu.Unlock()
	}
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

// demand counts what rules admitted. The map is copied to add one, so that looking one up locks nothing.
type demand struct {
	mu    sync.Mutex
	rules atomic.Pointer[map[string]*atomic.Int64]
	since int64 // ns: of the counts; the heartbeat's
}

// maxRules bounds the rules that are counted, and toldRules those that a heartbeat tells of.
const (
	maxRules  = 1024
	toldRules = 256
)

// admitted counts what a charge admitted.
func (s *Store) admitted(c *tidegate.Charge) {
	if c.Limit.Algorithm == tidegate.None || c.Limit.Algorithm == tidegate.Unlimited {
		return
	}
	d := &s.demand
	if rules := d.rules.Load(); rules != nil {
		if n := (*rules)[c.Rule]; n != nil {
			n.Add(c.Cost)
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[string]*atomic.Int64{}
	if rules := d.rules.Load(); rules != nil {
		if len(*rules) >= maxRules {
			return
		}
		maps.Copy(next, *rules)
	}
	if next[c.Rule] == nil {
		next[strings.Clone(c.Rule)] = &atomic.Int64{}
	}
	next[c.Rule].Add(c.Cost)
	d.rules.Store(&next)
}

// told returns what was admitted, as of a second, and what to take off the counts once the store knows.
func (d *demand) told(now int64) (perSecond, counts map[string]int64) {
	rules := d.rules.Load()
	if rules == nil {
		return nil, nil
	}
	counts = make(map[string]int64, len(*rules))
	for r, n := range *rules {
		counts[r] = n.Load()
	}
	if len(counts) > toldRules {
		counts = most(counts, toldRules)
	}
	perSecond = make(map[string]int64, len(counts))
	elapsed := max(now-d.since, int64(time.Second/10))
	for r, n := range counts {
		perSecond[r] = int64(math.Ceil(float64(n) * float64(time.Second) / float64(elapsed)))
	}
	return perSecond, counts
}

// take takes what the store knows off the counts.
func (d *demand) take(counts map[string]int64, now int64) {
	d.since = now
	rules := d.rules.Load()
	if rules == nil {
		return
	}
	for r, n := range counts {
		if c := (*rules)[r]; c != nil {
			c.Add(-n)
		}
	}
}
