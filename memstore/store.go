package memstore

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Config says how a [Store] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// MaxKeys bounds the number of buckets. Beyond it the fullest of a few sampled ones is forgotten for each new one,
	// which is counted in [Stats]. Default: 1,000,000.
	MaxKeys int
	// SweepEvery is how often a sixteenth of the store is looked through for buckets that are as good as new, to forget
	// them. Default: 1 s. Negative: never; they then leave only for lack of room.
	SweepEvery time.Duration
	// Now is the clock, for tests and replay. Default: the wall clock at the start plus the monotonic time since,
	// so that no step of the wall clock moves a bucket; calendar windows follow the wall clock.
	Now func() time.Time
}

// Stats tells what the store holds and what it had to do.
type Stats struct {
	Keys    int64 // buckets now
	Evicted int64 // buckets forgotten for lack of room before they were as good as new
}

const (
	shardCount     = 256
	defaultMaxKeys = 1_000_000
	defaultSweep   = time.Second
	// sweepShards is how many shards a sweep looks through, so that each is seen every 16 intervals.
	sweepShards = 16
)

// Store is a [tidegate.Store] in memory. Create it with [New] and close it when done.
type Store struct {
	now      func() int64 // µs
	wall     func() int64 // µs; for calendar windows
	seeds    [2]maphash.Seed
	maxKeys  int64
	keys     atomic.Int64
	evicted  atomic.Int64
	closed   atomic.Bool
	stop     chan struct{}
	stopped  chan struct{}
	policies policies
	shards   [shardCount]shard

	reservations reservations
}

var _ tidegate.Store = (*Store)(nil)

// shard is a part of the buckets under one lock.
type shard struct {
	mu      sync.Mutex
	buckets map[id]*bucket
	_       [40]byte // keeps two shards' locks out of one cache line
}

// id is a keyed hash of rule and key of 128 bits: two names share one with a chance of 2^-64 at four billion keys, and
// nobody who does not know the seeds can choose two that do.
type id struct{ a, b uint64 }

type bucket struct {
	state  algo.State
	policy *policy
}

// New returns an empty store. A nil config is the default.
func New(cfg *Config) *Store {
	s := &Store{
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		maxKeys: defaultMaxKeys,
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	start := time.Now()
	base := start.UnixMicro()
	s.now = func() int64 { return base + int64(time.Since(start)/time.Microsecond) }
	s.wall = func() int64 { return time.Now().UnixMicro() }
	every := defaultSweep
	if cfg != nil {
		if cfg.SweepEvery != 0 {
			every = cfg.SweepEvery
		}
		if cfg.MaxKeys > 0 {
			s.maxKeys = int64(cfg.MaxKeys)
		}
		if cfg.Now != nil {
			s.now = func() int64 { return cfg.Now().UnixMicro() }
			s.wall = s.now
		}
	}
	for i := range s.shards {
		s.shards[i].buckets = make(map[id]*bucket)
	}
	s.policies.init()
	s.reservations.init()
	if every < 0 {
		close(s.stopped)
	} else {
		go s.sweep(every)
	}
	return s
}

// Stats returns what the store holds and what it had to do.
func (s *Store) Stats() Stats {
	return Stats{Keys: s.keys.Load(), Evicted: s.evicted.Load()}
}

// Now returns the store's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.ready(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(s.now()), nil
}

// Close stops the store's goroutine and forgets all buckets.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.stop)
	<-s.stopped
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.buckets = make(map[id]*bucket)
		sh.mu.Unlock()
	}
	s.keys.Store(0)
	s.reservations.init()
	return nil
}

// ready returns the error of a call that cannot be made.
func (s *Store) ready(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return &tidegate.StoreError{Op: op, Err: tidegate.ErrClosed}
	}
	return nil
}

// idOf names the bucket of a charge. The rule's length keeps ("ab", "c") and ("a", "bc") apart.
func (s *Store) idOf(c *tidegate.Charge) id {
	n := uint64(len(c.Rule)) * 0x9e3779b97f4a7c15
	return id{
		a: maphash.String(s.seeds[0], c.Key) ^ rotate(maphash.String(s.seeds[1], c.Rule)+n),
		b: maphash.String(s.seeds[1], c.Key) ^ rotate(maphash.String(s.seeds[0], c.Rule)+n),
	}
}

// rotate keeps a rule and a key of the same text from cancelling each other out.
func rotate(h uint64) uint64 { return h<<31 | h>>33 }

func (s *Store) shard(i id) *shard { return &s.shards[i.a%shardCount] }

// sweep forgets, a few shards at a time, the buckets that are as good as new.
func (s *Store) sweep(every time.Duration) {
	defer close(s.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for next := 0; ; {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		for range sweepShards {
			s.sweepShard(&s.shards[next%shardCount])
			next++
		}
		s.reservations.sweep(s.now())
	}
}

// sweepShard looks through a shard, letting go of its lock every so many buckets.
func (s *Store) sweepShard(sh *shard) {
	const most = 512 // buckets looked at under the lock at a time
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := 0
	now := s.now()
	for i, b := range sh.buckets {
		if n++; n%most == 0 {
			sh.mu.Unlock()
			sh.mu.Lock()
			now = s.now()
			if sh.buckets[i] != b {
				continue // it went meanwhile, and another may have come in its place
			}
		}
		p := b.policy.params
		if t := s.clockOf(p, now); p.IdleAt(&b.state, t, p.Window(t)) <= t {
			delete(sh.buckets, i)
			s.keys.Add(-1)
		}
	}
}

// clockOf returns the moment that a limit is decided at: calendar windows follow the wall clock, wherever it steps.
func (s *Store) clockOf(p *algo.Params, now int64) int64 {
	if p.Calendar() {
		return s.wall()
	}
	return now
}
