package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// Store is a [tidegate.Store] that outlives the failure of a shared one. Create it with [New] and close it when done.
type Store struct {
	cfg      Config
	shared   tidegate.Store
	registry tidegate.Registry // the same, if it is one
	local    tidegate.Store
	start    time.Time
	breaker  breaker
	closed   atomic.Bool

	memories memories
	demand   demand
	limits   limits
	permits  permits
	made     reservations
	tables   atomic.Pointer[tables] // nil until the store has told of a second
	known    atomic.Int64           // replicas, as the store last told before it went away
	lives    atomic.Uint32          // of the store's data
	outage   atomic.Uint32          // the number of the present outage, or of the next
	staged   atomic.Bool            // whether the state is Returning
	owedNow  atomic.Bool            // whether debts are paid: not before all replicas are back

	mu      sync.Mutex
	state   State
	since   time.Time // of the state
	cause   error
	lostIt  bool // in this outage the store lost its data
	warned  bool
	holdoff time.Duration // how long the breaker stays open at least, since it came back open so soon
	closing time.Time     // when the breaker closed last

	beats   heart
	stop    chan struct{}
	poke    chan struct{}
	running sync.WaitGroup
	paying  atomic.Bool // whether debts are being paid in the background
}

var _ tidegate.Store = (*Store)(nil)

// New returns a store around the shared one, which becomes the Store's, and which it closes. A nil config is the default.
// The shared store is told once a second that this replica is there, if it is a [tidegate.Registry]; without that, shares
// are 1/Replicas, and data that it lost is not noticed. The error says all that is wrong with the config.
func New(shared tidegate.Store, cfg *Config) (*Store, error) {
	if shared == nil {
		return nil, errors.New("resilience: the shared store is nil: give New one, such as redisstore.Open returns")
	}
	s := &Store{shared: shared, start: time.Now(), stop: make(chan struct{}), poke: make(chan struct{}, 1)}
	if cfg != nil {
		s.cfg = *cfg
	}
	var err error
	if s.cfg, err = s.cfg.withDefaults(); err != nil {
		return nil, err
	}
	s.registry, _ = shared.(tidegate.Registry)
	if s.local = s.cfg.Local; s.local == nil {
		s.local = memstore.New(nil)
	}
	s.breaker.limit = uint64(s.cfg.Failures)
	s.memories.init(s.cfg.MaxKeys)
	s.since = s.start
	s.outage.Store(1)
	s.owedNow.Store(true)
	s.beats.init()
	s.running.Go(s.beat)
	return s, nil
}

// now is this process's clock, in ns since the store was made.
func (s *Store) now() int64 { return int64(time.Since(s.start)) }

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

// Take implements [tidegate.Store].
func (s *Store) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := s.ready(ctx, "take"); err != nil {
		return dst, err
	}
	begun, closed := s.breaker.begin()
	switch {
	case !closed:
		return s.fallback(ctx, charges, dst)
	case s.staged.Load():
		return s.takeStaged(ctx, begun, charges, dst)
	}
	return s.takeShared(ctx, begun, charges, dst)
}

// takeShared lets the shared store decide, or the fallback if it fails.
func (s *Store) takeShared(ctx context.Context, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if s.memories.owing.Load() > 0 || s.lives.Load() > 0 {
		s.settleUp(ctx, charges)
	}
	ds, v, err := s.ask(ctx, begun, charges, dst)
	switch v {
	case answered:
		return ds, nil
	case failed:
		return s.fallback(ctx, charges, dst)
	case about, left:
	}
	return dst, err
}

// ask asks the shared store, and remembers what it says.
func (s *Store) ask(ctx context.Context, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, verdict, error) {
	bounded, cancel, own := s.bound(ctx)
	start := s.now()
	ds, err := s.shared.Take(bounded, charges, dst)
	cancel()
	v := judge(ctx, own, err)
	s.observe("take", start, v, err)
	s.tell(begun, v, err)
	if v != answered {
		return dst, v, err
	}
	s.note(charges, ds[len(dst):])
	s.permits.mirror(s, charges, ds[len(dst):])
	return ds, v, nil
}

// away is the error of what only the shared store can do, when it cannot.
func (s *Store) away(op string) error {
	s.mu.Lock()
	err := s.cause
	s.mu.Unlock()
	if se, ok := errors.AsType[*tidegate.StoreError](err); ok {
		err = se.Err
	}
	if err == nil {
		err = errors.New("it does not answer")
	}
	return &tidegate.StoreError{Op: op, Err: fmt.Errorf("the store is away: %w", err)}
}

// only makes a call that only the shared store can serve, and returns a StoreError while it is away.
func (s *Store) only(ctx context.Context, op string, f func(context.Context) error) error {
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	begun, closed := s.breaker.begin()
	if !closed {
		return s.away(op)
	}
	v, err := s.call(ctx, begun, op, f)
	if v == failed && !errors.Is(err, tidegate.ErrStore) { // it was our deadline
		err = &tidegate.StoreError{Op: op, Err: fmt.Errorf("no answer within %v: %w", s.cfg.Timeout, err)}
	}
	return err
}

// Settle implements [tidegate.Store]. What was reserved in fallback is settled in this process. What the shared store holds
// cannot be settled while it is away: it stays charged.
func (s *Store) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if err := s.ready(ctx, "settle"); err != nil {
		return err
	}
	if made, ok := s.made.find(id, s.now()); ok {
		err := s.local.Settle(ctx, id, made, cost)
		if err == nil || errors.Is(err, tidegate.ErrUnknownID) {
			s.made.drop(id)
		}
		return err
	}
	return s.only(ctx, "settle", func(ctx context.Context) error { return s.shared.Settle(ctx, id, charges, cost) })
}

// Reset implements [tidegate.Store]. It is a StoreError while the shared store is away.
func (s *Store) Reset(ctx context.Context, charges []tidegate.Charge) error {
	err := s.only(ctx, "reset", func(ctx context.Context) error { return s.shared.Reset(ctx, charges) })
	if err != nil {
		return err
	}
	for i := range charges {
		c := &charges[i]
		sh := s.memories.shard(c.Rule, c.Key)
		sh.mu.Lock()
		s.memories.forget(sh, bucket{c.Rule, c.Key})
		sh.mu.Unlock()
		local := []tidegate.Charge{
			s.localCharge(c, kindBucket, c.Limit), s.localCharge(c, kindCharged, c.Limit), s.localCharge(c, kindPermits, c.Limit),
		}
		if err := s.local.Reset(ctx, local); err != nil {
			return err
		}
	}
	return nil
}

// Now returns the shared store's clock, or while that is away the local one's.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.ready(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	if begun, closed := s.breaker.begin(); closed {
		v, err := s.call(ctx, begun, "now", func(ctx context.Context) (err error) {
			now, err = s.shared.Now(ctx)
			return err
		})
		if v != failed {
			return now, err
		}
	}
	return s.local.Now(ctx)
}

// Status tells how things are.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		State:     s.state,
		Since:     s.since,
		Replicas:  int(s.known.Load()),
		Debts:     int(s.memories.owing.Load()),
		Forgotten: s.memories.forgot.Load(),
	}
	if s.state == Fallback {
		st.Err = s.cause
	}
	return st
}

// Close tells the shared store that this replica leaves, and closes both stores.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.stop)
	s.running.Wait()
	return errors.Join(s.shared.Close(), s.local.Close())
}

// most returns the n largest counts.
func most(counts map[string]int64, n int) map[string]int64 {
	type pair struct {
		rule string
		n    int64
	}
	all := make([]pair, 0, len(counts))
	for r, c := range counts {
		all = append(all, pair{r, c})
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.rule, b.rule)) })
	top := make(map[string]int64, n)
	for _, p := range all[:n] {
		top[p.rule] = p.n
	}
	return top
}
