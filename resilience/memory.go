package resilience

import (
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidegate-go/tidegate"
)

// memory is what is remembered of a key: what the store last said of it, and what it is owed. It is two cache lines: one of
// them is what every answer writes, and what a key is found by is not in it.
type memory struct {
	rule, key string
	same      *memory // the next key of the same hash
	debts     []debt

	limit  *tidegate.Limit // as the store was last asked with
	told   int64           // what remained then
	at     int64           // ns: when
	full   int64           // ns: when the bucket is as good as new, if nobody takes
	lives  uint32          // of which life of the store's data that is
	begun  uint32          // the outage for which the fallback bucket was begun
	tally  *tally          // what the rule admitted; nil until it is looked up
	paying *payment        // that is under way
	owing  bool            // whether it counts among the keys with debts, be they just being paid
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

const memoryShards = 64

// memories keeps what is remembered of keys, bounded.
type memories struct {
	seed   maphash.Seed
	bits   uint64       // of a name's hash that are used: all, but in tests
	room   int          // in a shard
	owing  atomic.Int64 // keys with debts
	forgot atomic.Int64 // debts that were forgotten
	next   int          // the shard to sweep; the heartbeat's
	shards *[memoryShards]memoryShard
}

// memoryShard is a part of the keys under one lock. They are found by the hash of rule and key, which is made once for shard
// and map; the names are compared with those in the memory. What a shard holds is as large as a cache line.
type memoryShard struct {
	mu     sync.Mutex
	hashes map[uint64]*memory // of keys of one hash, which hardly ever are several, each leads to the next
	n      int                // keys
	_      [40]byte           // keeps two shards' locks out of one cache line
}

func (ms *memories) init(keys int) {
	ms.seed, ms.bits = maphash.MakeSeed(), math.MaxUint64
	ms.room = max(1, keys/memoryShards)
	ms.shards = new([memoryShards]memoryShard)
	for i := range ms.shards {
		ms.shards[i].hashes = map[uint64]*memory{}
	}
}

func (ms *memories) hash(rule, key string) uint64 {
	return (maphash.String(ms.seed, key) + 31*maphash.String(ms.seed, rule)) & ms.bits
}

// lock locks a key's shard, and returns it and what is remembered of the key, nil if there is nothing.
func (ms *memories) lock(rule, key string) (*memoryShard, *memory) {
	hash := ms.hash(rule, key)
	sh := &ms.shards[hash%memoryShards]
	sh.mu.Lock()
	return sh, sh.find(hash, rule, key)
}

// add returns what is remembered of a key from now on. The shard is locked, and knows nothing of the key.
func (ms *memories) add(sh *memoryShard, c *tidegate.Charge, now int64) *memory {
	if sh.n >= ms.room {
		ms.evict(sh, now)
	}
	// The caller's strings may be parts of something large that shall not stay for the sake of a name.
	name := c.Rule + c.Key
	if c.Rule == "" || c.Key == "" { // then it is the other one
		name = strings.Clone(name)
	}
	m := &memory{rule: name[:len(c.Rule)], key: name[len(c.Rule):]}
	m.limit, m.told, m.full = c.Limit, c.Limit.Capacity(), math.MinInt64
	sh.put(ms.hash(m.rule, m.key), m)
	return m
}

// find returns what is remembered of a key of a hash.
func (sh *memoryShard) find(hash uint64, rule, key string) *memory {
	m := sh.hashes[hash]
	for m != nil && (m.key != key || m.rule != rule) {
		m = m.same
	}
	return m
}

func (sh *memoryShard) put(hash uint64, m *memory) {
	m.same = sh.hashes[hash]
	sh.hashes[hash] = m
	sh.n++
}

// remove removes a key of a hash, which is there.
func (sh *memoryShard) remove(hash uint64, m *memory) {
	switch first := sh.hashes[hash]; {
	case first != m:
		for first.same != m {
			first = first.same
		}
		first.same = m.same
	case m.same != nil:
		sh.hashes[hash] = m.same
	default:
		delete(sh.hashes, hash)
	}
	sh.n--
}

// all goes through the keys, in an order that the map chooses at random. The present one may be removed meanwhile.
func (sh *memoryShard) all(yield func(*memory) bool) {
	for _, m := range sh.hashes {
		for m != nil {
			next := m.same
			if !yield(m) {
				return
			}
			m = next
		}
	}
}

// evict makes room: of a few, the one goes that owes nothing and has most remaining, if there is one.
func (ms *memories) evict(sh *memoryShard, now int64) {
	const few = 8
	var worst *memory
	least, n := math.Inf(1), 0
	for m := range sh.all {
		matters := 1 - float64(m.remaining(now))/float64(max(1, m.limit.Capacity()))
		if len(m.debts) > 0 || m.paying != nil {
			matters += 2
		}
		if matters < least {
			worst, least = m, matters
		}
		if n++; n == few || least <= 0 {
			break
		}
	}
	if worst != nil {
		ms.forget(sh, worst)
	}
}

// forget drops a key. The shard is locked.
func (ms *memories) forget(sh *memoryShard, m *memory) {
	if m.owing {
		m.owing = false
		ms.owing.Add(-1)
	}
	ms.forgot.Add(int64(len(m.debts)))
	sh.remove(ms.hash(m.rule, m.key), m)
}

// sweep forgets, in one shard, the keys that are as good as new and owe nothing.
func (ms *memories) sweep(now int64) {
	sh := &ms.shards[ms.next%memoryShards]
	ms.next++
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for m := range sh.all {
		if now >= m.full && len(m.debts) == 0 && m.paying == nil {
			sh.remove(ms.hash(m.rule, m.key), m)
		}
	}
}
