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
	"github.com/tidegate-go/tidegate/internal/due"
	"github.com/tidegate-go/tidegate/memstore"
)

// Store is a [tidegate.Store] that outlives the failure of a shared one. Create it with [New] and close it when done.
type Store struct {
	cfg       Config
	shared    tidegate.Store
	registry  tidegate.Registry // the same, if it is one
	local     tidegate.Store
	start     time.Time
	deadlines *due.Group
	breaker   breaker
	leaving   atomic.Bool
	closed    atomic.Bool

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

	telling sync.Mutex // keeps changes of state in order for who is told of them; taken before mu
	mu      sync.Mutex
	state   State
	since   time.Time // of the state
	cause   error
	lostIt  bool // in this outage the store lost its data
	warned  bool
	flaps   flapping

	steps   *steps // nil unless time is virtual
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
	s, err := prepare(shared, cfg, nil)
	if err != nil {
		return nil, err
	}
	s.running.Go(s.beat)
	return s, nil
}

// prepare returns a Store that does not beat yet, in real time or in that of the steps.
func prepare(shared tidegate.Store, cfg *Config, st *steps) (*Store, error) {
	if shared == nil {
		return nil, errors.New("resilience: the shared store is nil: give New one, such as redisstore.Open returns")
	}
	s := &Store{shared: shared, steps: st, stop: make(chan struct{}), poke: make(chan struct{}, 1)}
	if cfg != nil {
		s.cfg = *cfg
	}
	var err error
	if s.cfg, err = s.cfg.withDefaults(); err != nil {
		return nil, err
	}
	s.start = s.clock()
	s.registry, _ = shared.(tidegate.Registry)
	if s.local = s.cfg.Local; s.local == nil {
		local := &memstore.Config{}
		if st != nil {
			local.Now, local.SweepEvery = st.now, -1
		}
		s.local = memstore.New(local)
	}
	s.deadlines = due.NewGroup(s.cfg.Timeout)
	s.breaker.limit = uint64(s.cfg.Failures)
	s.memories.init(s.cfg.MaxKeys)
	s.since = s.start
	s.outage.Store(1)
	s.owedNow.Store(true)
	s.beginBeating()
	return s, nil
}

// now is this process's clock, in ns since the store was made.
func (s *Store) now() int64 {
	if s.steps != nil {
		return int64(s.steps.now().Sub(s.start))
	}
	return int64(time.Since(s.start))
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
	ds, v, err := s.tryShared(ctx, begun, charges, dst)
	switch v {
	case answered:
		s.permits.mirror(s, charges, ds[len(dst):])
		return ds, nil
	case failed:
		return s.fallback(ctx, charges, dst)
	case about, left:
	}
	return dst, err
}

// tryShared asks the shared store, once the keys are settled. All that the caller waits for is within one deadline.
func (s *Store) tryShared(ctx context.Context, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, verdict, error) {
	bounded, ours, own := s.bound(ctx)
	defer ours.Release()
	if s.memories.owing.Load() > 0 || s.lives.Load() > 0 {
		if ok, err := s.settleUp(bounded, charges); !ok {
			return dst, s.unsettled(ctx, begun, err), ctx.Err()
		}
	}
	return s.ask(ctx, bounded, own, begun, charges, dst)
}

// unsettled is the verdict on a take whose keys could not be settled.
func (s *Store) unsettled(caller context.Context, begun uint64, err error) verdict {
	if caller.Err() != nil {
		return left
	}
	// Of a store that has just failed, each caller who had no answer counts. Of another it may be that payments take long.
	if err != nil && begun&maxFailures != 0 {
		if !errors.Is(err, tidegate.ErrStore) {
			err = &tidegate.StoreError{Op: "take", Err: err}
		}
		s.tell(begun, failed, err)
	}
	return failed
}

// ask asks the shared store within a bounded context of the caller's, and remembers what it says.
func (s *Store) ask(
	caller, bounded context.Context, own bool, begun uint64, charges []tidegate.Charge, dst []tidegate.Decision,
) ([]tidegate.Decision, verdict, error) {
	start := s.now()
	ds, err := s.shared.Take(bounded, charges, dst)
	v := judge(caller, own, err)
	if v != answered || reached(charges, ds[len(dst):]) {
		s.observe("take", start, v, err)
		s.tell(begun, v, err)
	}
	if v != answered {
		return dst, v, err
	}
	s.note(charges, ds[len(dst):], start)
	return ds, v, nil
}

// reached reports whether the store itself decided. What is answered out of a lease or a cache, or needs no bucket, would
// be while it is away, and says nothing of it.
func reached(charges []tidegate.Charge, decisions []tidegate.Decision) bool {
	for i := range decisions {
		if decisions[i].Source == tidegate.SourceStore && charges[i].Limit.Algorithm != tidegate.None {
			return true
		}
	}
	return false
}

// away is the error of what only the shared store can do, when it cannot, for a cause or that of the outage.
func (s *Store) away(op string, err error) error {
	if err == nil {
		s.mu.Lock()
		err = s.cause
		s.mu.Unlock()
	}
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
		return s.away(op, nil)
	}
	v, err := s.call(ctx, begun, op, f)
	if v == failed && !errors.Is(err, tidegate.ErrStore) { // it was our deadline
		err = &tidegate.StoreError{Op: op, Err: fmt.Errorf("no answer within %v: %w", s.cfg.Timeout, err)}
	}
	return err
}

// Reset implements [tidegate.Store]. It is a StoreError while the shared store is away.
func (s *Store) Reset(ctx context.Context, charges []tidegate.Charge) error {
	err := s.only(ctx, "reset", func(ctx context.Context) error { return s.shared.Reset(ctx, charges) })
	if err != nil {
		return err
	}
	outage := s.outage.Load()
	for i := range charges {
		c := &charges[i]
		sh, m := s.memories.lock(c.Rule, c.Key)
		if m != nil {
			m.debts = nil // of a bucket that is as good as new
			s.memories.forget(sh, m)
		}
		sh.mu.Unlock()
		local := []tidegate.Charge{
			localCharge(c, kindBucket, c.Limit, outage), localCharge(c, kindCharged, c.Limit, outage), localCharge(c, kindPermits, c.Limit, 0),
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

// Close pays what this replica owes, as far as a second suffices and the shared store is there, tells it that the replica
// leaves, and closes both stores.
func (s *Store) Close() error {
	if !s.leaving.Swap(true) {
		s.payBeforeLeaving()
	}
	s.mu.Lock()
	was := s.closed.Swap(true)
	s.mu.Unlock()
	if was {
		return nil
	}
	close(s.stop)
	s.running.Wait()
	if s.steps != nil {
		s.leave()
	}
	return errors.Join(s.shared.Close(), s.local.Close())
}

// spawn runs f beside, unless the Store is closed, and reports whether it does. Close waits for it. In virtual time f is run at once.
func (s *Store) spawn(f func()) bool {
	if s.steps != nil {
		if s.closed.Load() {
			return false
		}
		f()
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return false
	}
	s.running.Go(f)
	return true
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
