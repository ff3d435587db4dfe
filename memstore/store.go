package memstore

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Config says how a [Store] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// MaxKeys bounds the number of buckets. Beyond it the fullest of a few sampled ones is forgotten for each new one,
	// which is counted in [Stats]. Default: 1,000,000.
	MaxKeys int
	// SweepEvery is how often a sixteenth of the store is looked through for buckets that are as good as new, to forget
	// them. Default: 1 s. Negative: never; they then leave only for lack of room.
	SweepEvery time.Duration
	// CoarseClock lets a goroutine read the default clock, each time that long after the last, and takes decide by what it
	// read: to read the clock is about half of what a take costs. A decision is then made as of up to CoarseClock earlier, and
	// by as much more as that goroutine has to wait for a processor; call both together e. What passes in any interval of t
	// is bounded by what the limit lets pass in t+e; who asks again after RetryAfter may be told to wait for up to e longer;
	// and a burst smaller than what comes back in e lets less pass than the rate. Time never goes back. Calendar windows
	// follow the wall clock as ever. At least 100 µs: less counts as that. Default: 0, each take reads the clock.
	CoarseClock time.Duration
	// Now is the clock, for tests and replay. Default: the wall clock at the start plus the monotonic time since,
	// so that no step of the wall clock moves a bucket; calendar windows follow the wall clock. With Now, CoarseClock is ignored.
	Now func() time.Time
}

// Stats tells what the store holds and what it had to do.
type Stats struct {
	Keys    int64 // buckets now
	Evicted int64 // buckets forgotten for lack of room before they were as good as new
}

const (
	defaultMaxKeys = 1_000_000
	defaultSweep   = time.Second
	// sweeps is the number of sweeps that look through all shards.
	sweeps = 16
	// There are as many shards as it takes, in powers of two, for each to hold so many buckets, so that a shard grows in a
	// few microseconds however many keys there may be; but neither fewer nor more than this.
	bucketsPerShard      = 4096
	minShards, maxShards = 256, 1 << 14
)

// Store is a [tidegate.Store] in memory. Create it with [New] and close it when done.
type Store struct {
	start     time.Time    // of the default clock
	base      int64        // the same, µs
	clock     func() int64 // µs; nil for the default
	wall      func() int64 // µs; for calendar windows
	seeds     [2]maphash.Seed
	maxKeys   int64
	leastRoom int64
	closed    atomic.Bool
	stop      chan struct{}
	running   sync.WaitGroup
	shards    []shard // a power of two of them

	_            [64]byte // what new keys write stays apart from what every take reads
	keys         atomic.Int64
	evicted      atomic.Int64
	policies     policies
	reservations reservations
}

var _ tidegate.Store = (*Store)(nil)

// shard is a part of the buckets under one lock.
type shard struct {
	mu sync.Mutex
	table
	_ [40]byte // keeps two shards' locks out of one cache line
}

// id is a keyed hash of rule and key of 128 bits: two names share one with a chance of 2^-64 at four billion keys, and
// nobody who does not know the seeds can choose two that do.
type id struct{ a, b uint64 }

// New returns an empty store. A nil config is the default.
func New(cfg *Config) *Store {
	s := &Store{
		seeds:     [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		maxKeys:   defaultMaxKeys,
		leastRoom: leastRoom,
		stop:      make(chan struct{}),
	}
	s.start = time.Now()
	s.base = s.start.UnixMicro()
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
			s.clock = func() int64 { return cfg.Now().UnixMicro() }
			s.wall = s.clock
		} else if cfg.CoarseClock > 0 {
			s.coarsen(max(cfg.CoarseClock, leastCoarse))
		}
	}
	shards := int64(minShards)
	for shards < maxShards && shards*bucketsPerShard < s.maxKeys {
		shards *= 2
	}
	s.shards = make([]shard, shards)
	s.policies.init()
	s.reservations.init()
	if every > 0 {
		s.running.Go(func() { s.sweep(every) })
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

// Close stops the store's goroutines and forgets all buckets.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.stop)
	s.running.Wait()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.close()
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

// ruleOf returns what a rule adds to the ids of its buckets. Its length keeps ("ab", "c") and ("a", "bc") apart.
func (s *Store) ruleOf(rule string) id {
	n := uint64(len(rule)) * 0x9e3779b97f4a7c15
	return id{rotate(maphash.String(s.seeds[1], rule) + n), rotate(maphash.String(s.seeds[0], rule) + n)}
}

// idIn names the bucket of a key under a rule.
func (s *Store) idIn(rule id, key string) id {
	return id{maphash.String(s.seeds[0], key) ^ rule.a, maphash.String(s.seeds[1], key) ^ rule.b}
}

// idOf names the bucket of a charge.
func (s *Store) idOf(c *tidegate.Charge) id { return s.idIn(s.ruleOf(c.Rule), c.Key) }

// rotate keeps a rule and a key of the same text from cancelling each other out.
func rotate(h uint64) uint64 { return h<<31 | h>>33 }

func (s *Store) shardOf(i id) int { return int(i.a & uint64(len(s.shards)-1)) }

func (s *Store) shard(i id) *shard { return &s.shards[s.shardOf(i)] }
