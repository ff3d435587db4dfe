package lease

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Config says how a [Layer] works.
type Config struct {
	// Take asks the store, and bounds how long that takes: who waits for the answer of another's call cannot end it.
	Take func(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error)
	// Wait bounds how long a caller waits for the call of another that fetches what it needs. Default: 1 s.
	Wait time.Duration
	// Now is a clock that never steps, in nanoseconds. Default: the monotonic time since [New].
	Now func() int64
	// MaxCells bounds the buckets that leases are kept of. Beyond it one that has lapsed goes for each new one, else the
	// one of a few that would have lapsed first. Default: 65,536.
	MaxCells int
}

// Stats tells what became of the tokens that were taken ahead. What is neither spent nor lapsed is left.
type Stats struct {
	Taken  int64 // tokens taken ahead of the takes that spend them
	Spent  int64 // of these, tokens that takes have spent
	Lapsed int64 // of these, tokens that have lapsed unspent, once that was noticed: within about a second
	Takes  int64 // takes decided from leases alone
}

const (
	shardCount   = 64 // so many bits has the number that says which are locked
	defaultCells = 1 << 16
	defaultWait  = time.Second
	sweepEvery   = time.Second
)

// Layer keeps the leases of one process. Create it with [New] and close it when done.
type Layer struct {
	take   func(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error)
	now    func() int64
	wait   time.Duration
	room   int // cells in a shard
	seed   maphash.Seed
	count  atomic.Int64 // cells
	shards [shardCount]shard

	sweeping sync.Mutex
	timer    *time.Timer // while there are cells
	closed   bool
}

// shard is a part of the cells under one lock, and what became of their tokens.
type shard struct {
	mu    sync.Mutex
	cells map[bucket]*cell
	stats Stats
	_     [16]byte // keeps two shards' locks out of one cache line
}

// bucket names what a cell has tokens of.
type bucket struct{ rule, key string }

// New returns a layer without leases.
func New(cfg Config) *Layer {
	l := &Layer{take: cfg.Take, now: cfg.Now, wait: cfg.Wait, seed: maphash.MakeSeed()}
	if l.now == nil {
		start := time.Now()
		l.now = func() int64 { return int64(time.Since(start)) }
	}
	if l.wait <= 0 {
		l.wait = defaultWait
	}
	if cfg.MaxCells <= 0 {
		cfg.MaxCells = defaultCells
	}
	l.room = max(1, cfg.MaxCells/shardCount)
	for i := range l.shards {
		l.shards[i].cells = map[bucket]*cell{}
	}
	return l
}

// Take decides a take as [tidegate.Store] says: from leases if all its charges have one that suffices, else the store
// does. Charges that wait, have an ID or cost nothing or less never use them.
func (l *Layer) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if !leasable(charges) {
		if l.count.Load() > 0 {
			l.notice(charges)
		}
		return l.take(ctx, charges, dst)
	}
	if len(charges) == 1 {
		if d, ok := l.spendOne(&charges[0]); ok {
			return append(dst, d), nil
		}
	}
	n := len(dst)
	dst, own, others := l.attempt(charges, dst, true)
	if others != nil {
		if err := l.await(ctx, others); err != nil {
			return dst, err
		}
		dst, _, _ = l.attempt(charges, dst, false)
	}
	switch {
	case len(dst) > n:
		return dst, nil
	case own != nil:
		return l.fetch(ctx, own, charges, dst)
	}
	return l.plain(ctx, charges, dst)
}

// Holds reports whether there is a lease of anything.
func (l *Layer) Holds() bool { return l.count.Load() > 0 }

// leasable reports whether a take is one that leases may decide, if there are any.
func leasable(charges []tidegate.Charge) bool {
	for i := range charges {
		c := &charges[i]
		if c.Cost <= 0 || c.MaxWait > 0 || c.ID != "" || c.Limit == nil || c.Limit.Lease <= 0 {
			return false
		}
		for j := range i {
			if charges[j].Key == c.Key && charges[j].Rule == c.Rule {
				return false
			}
		}
	}
	return len(charges) > 0
}

// spendOne decides a take of one charge, if there is a lease that suffices.
func (l *Layer) spendOne(c *tidegate.Charge) (tidegate.Decision, bool) {
	sh := &l.shards[l.index(c)]
	sh.mu.Lock()
	x := sh.cells[bucket{c.Rule, c.Key}]
	if x == nil || x.limit != c.Limit || x.version != c.Version || x.left < c.Cost {
		sh.mu.Unlock()
		return tidegate.Decision{}, false
	}
	now := l.now()
	if now >= x.until {
		sh.mu.Unlock()
		return tidegate.Decision{}, false
	}
	x.spend(now, c.Cost)
	sh.stats.Spent += c.Cost
	sh.stats.Takes++
	d := x.decision(c.Rule, now)
	sh.mu.Unlock()
	return d, true
}

// attempt decides a take from leases if all suffice, and appends the decisions. If they do not, and fetch is set, it
// returns the flight that will bring more: the caller's own to start, or another's to wait for. With neither, the store
// decides the take alone.
func (l *Layer) attempt(charges []tidegate.Charge, dst []tidegate.Decision, fetch bool) (_ []tidegate.Decision, own, others *flight) {
	locked := l.lock(charges)
	defer l.unlock(locked)
	now := l.now()
	enough := true
	for i := range charges {
		x := l.current(&charges[i])
		if x == nil || !x.suffices(now, charges[i].Cost) {
			enough = false
			if x != nil && x.flight != nil {
				others = x.flight
			}
		}
	}
	switch {
	case enough:
		return l.spendAll(charges, dst, now), nil, nil
	case !fetch:
		return dst, nil, nil
	case others != nil:
		return dst, nil, others
	}
	return dst, l.prepare(charges, now), nil
}

// spendAll decides a take whose leases suffice. The shards are locked.
func (l *Layer) spendAll(charges []tidegate.Charge, dst []tidegate.Decision, now int64) []tidegate.Decision {
	for i := range charges {
		c := &charges[i]
		sh := &l.shards[l.index(c)]
		x := sh.cells[bucket{c.Rule, c.Key}]
		x.spend(now, c.Cost)
		sh.stats.Spent += c.Cost
		dst = append(dst, x.decision(c.Rule, now))
	}
	l.shards[l.index(&charges[0])].stats.Takes++
	return dst
}

// current returns the cell of a charge's bucket, if its limit is the charge's. A lease of a former limit lapses. The shard is
// locked.
func (l *Layer) current(c *tidegate.Charge) *cell {
	sh := &l.shards[l.index(c)]
	name := bucket{c.Rule, c.Key}
	x := sh.cells[name]
	if x == nil {
		return nil
	}
	switch x.compare(c) {
	case same:
		return x
	case older:
	case other:
		l.drop(sh, name, x)
	}
	return nil
}

// notice ends the leases of former limits of the charges, which the store decides.
func (l *Layer) notice(charges []tidegate.Charge) {
	for i := range charges {
		if c := &charges[i]; c.Limit != nil {
			sh := &l.shards[l.index(c)]
			sh.mu.Lock()
			l.current(c)
			sh.mu.Unlock()
		}
	}
}

// plain lets the store decide a take, and takes note of what it says.
func (l *Layer) plain(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	n := len(dst)
	dst, err := l.take(ctx, charges, dst)
	if err != nil {
		return dst, err
	}
	locked := l.lock(charges)
	defer l.unlock(locked)
	now := l.now()
	admitted := allowed(charges, dst[n:])
	for i := range charges {
		c, d := &charges[i], &dst[n+i]
		x := l.current(c)
		if x == nil {
			if x = l.add(c); x == nil {
				continue
			}
		}
		x.note(now, d)
		if admitted && d.Allowed {
			x.use(now, c.Cost)
		}
	}
	return dst, nil
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

// Reset ends the leases of the charges' buckets, which are as good as new or about to be. It is called before the store
// resets them, so that nothing old is spent after, and after, so that nothing is that was fetched before.
func (l *Layer) Reset(charges []tidegate.Charge) {
	for i := range charges {
		c := &charges[i]
		sh := &l.shards[l.index(c)]
		name := bucket{c.Rule, c.Key}
		sh.mu.Lock()
		if x := sh.cells[name]; x != nil {
			l.drop(sh, name, x)
		}
		sh.mu.Unlock()
	}
}

// Stats returns what became of the tokens that were taken ahead.
func (l *Layer) Stats() Stats {
	var sum Stats
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		sum.Taken += sh.stats.Taken
		sum.Spent += sh.stats.Spent
		sum.Lapsed += sh.stats.Lapsed
		sum.Takes += sh.stats.Takes
		sh.mu.Unlock()
	}
	return sum
}

// Close ends all leases.
func (l *Layer) Close() {
	l.sweeping.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.sweeping.Unlock()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for name, x := range sh.cells {
			l.drop(sh, name, x)
		}
		sh.mu.Unlock()
	}
}

// index returns which shard has the bucket of a charge.
func (l *Layer) index(c *tidegate.Charge) uint64 {
	return (maphash.String(l.seed, c.Key) + 31*maphash.String(l.seed, c.Rule)) % shardCount
}

// lock locks the shards of the charges' buckets, in one order for all, and returns which.
func (l *Layer) lock(charges []tidegate.Charge) (which uint64) {
	for i := range charges {
		which |= 1 << l.index(&charges[i])
	}
	for rest := which; rest != 0; rest &= rest - 1 {
		l.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	return which
}

func (l *Layer) unlock(which uint64) {
	for ; which != 0; which &= which - 1 {
		l.shards[bits.TrailingZeros64(which)].mu.Unlock()
	}
}
