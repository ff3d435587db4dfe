package resilience

import (
	"context"
	"sync"

	"github.com/tidegate-go/tidegate"
)

// payers is how many debts are paid at a time in the background.
const payers = 8

// settleUp makes the shared store know of the charges' keys what this replica knows, before it is asked of them: what was
// admitted alone, and, if it lost its data, what it had.
func (s *Store) settleUp(ctx context.Context, charges []tidegate.Charge) {
	for i := range charges {
		if c := &charges[i]; c.Limit != nil && counted(c) && c.Cost >= 0 {
			s.settleKey(ctx, c)
		}
	}
}

// settleKey pays what the key owes. Who comes while another does waits for it.
func (s *Store) settleKey(ctx context.Context, c *tidegate.Charge) {
	name := bucket{c.Rule, c.Key}
	sh := s.memories.shard(c.Rule, c.Key)
	sh.mu.Lock()
	m := sh.keys[name]
	if m == nil {
		sh.mu.Unlock()
		return
	}
	if paying := m.paying; paying != nil {
		sh.mu.Unlock()
		select {
		case <-paying:
		case <-ctx.Done():
		}
		return
	}
	lives, now := s.lives.Load(), s.now()
	lost := m.lives != lives && m.full > now
	if !lost && (len(m.debts) == 0 || !s.owedNow.Load()) {
		sh.mu.Unlock()
		return
	}
	var debts []debt
	if s.owedNow.Load() {
		debts, m.debts = m.debts, nil
	}
	inUse := m.limit.Capacity() - m.remaining(now)
	if len(debts) > 0 {
		s.memories.owing.Add(-1)
	}
	done := make(chan struct{})
	m.paying, m.lives = done, lives
	sh.mu.Unlock()

	// It is not the caller's to give up, and is bounded by the deadline of each call.
	ctx = context.WithoutCancel(ctx)
	if lost {
		s.restore(ctx, c, inUse)
	}
	var unpaid []debt
	for i := range debts {
		if left := s.payDebt(ctx, &debts[i]); left > 0 {
			debts[i].left = left
			unpaid = append(unpaid, debts[i])
		}
	}

	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(done)
	if m.paying = nil; len(unpaid) > 0 && sh.keys[name] == m {
		if len(m.debts) == 0 {
			s.memories.owing.Add(1)
		}
		m.debts = append(m.debts, unpaid...)
	}
}

// restore charges what the store has not in use of a bucket of which this replica remembers that it was.
func (s *Store) restore(ctx context.Context, c *tidegate.Charge, inUse int64) {
	begun, closed := s.breaker.begin()
	if !closed {
		return
	}
	peek := tidegate.Charge{Rule: c.Rule, Key: c.Key, Limit: c.Limit, Version: c.Version}
	ds, v, _ := s.askPlainly(ctx, begun, peek)
	if v != answered {
		return
	}
	has := ds.Limit - ds.Remaining
	if capacity := c.Limit.Capacity(); ds.Limit != capacity && ds.Limit > 0 {
		has = int64(float64(has) / float64(ds.Limit) * float64(capacity))
	}
	if inUse > has {
		s.charge(ctx, peek, inUse-has)
	}
}

// payDebt charges the store with what is owed, and returns what is to be tried again.
func (s *Store) payDebt(ctx context.Context, d *debt) (again int64) {
	owed := d.left
	both := []tidegate.Charge{d.charged, d.local}
	if ds, err := s.local.Take(ctx, both, nil); err == nil { // a peek
		if n := ds[0].Remaining - ds[1].Remaining; n > 0 {
			owed += n
			both[0].Cost = n // so that it is not paid twice
			_, _ = s.local.Take(ctx, both[:1], nil)
		}
	}
	if owed <= 0 {
		return 0
	}
	charged, again := s.charge(ctx, d.charge, owed)
	if s.cfg.Hooks.Repaid != nil && again == 0 {
		s.cfg.Hooks.Repaid(d.charge.Rule, charged, owed-charged)
	}
	return again
}

// charge charges the store with so many tokens, or as many as there are. Again is what is to be tried again, because the
// store failed before any of it ran.
func (s *Store) charge(ctx context.Context, c tidegate.Charge, owed int64) (charged, again int64) {
	const tries = 16 // others take meanwhile, and a limit with shards is charged in parts
	part := owed
	for range tries {
		if charged >= owed || part <= 0 {
			break
		}
		begun, closed := s.breaker.begin()
		if !closed {
			return charged, owed - charged
		}
		c.Cost = min(part, owed-charged)
		d, v, err := s.askPlainly(ctx, begun, c)
		switch {
		case v == failed && !mayHaveRun(err):
			return charged, owed - charged
		case v != answered:
			return owed, 0
		case d.Allowed:
			charged += c.Cost
		case d.Remaining < c.Cost:
			part = d.Remaining
		default: // a leaky bucket's queue, or what is otherwise refused although it fits
			part = c.Cost / 2
		}
	}
	return charged, 0
}

// askPlainly asks the shared store for one charge that no caller waits for.
func (s *Store) askPlainly(ctx context.Context, begun uint64, c tidegate.Charge) (d tidegate.Decision, v verdict, err error) {
	v, err = s.call(ctx, begun, "repay", func(ctx context.Context) error {
		ds, err := s.shared.Take(ctx, []tidegate.Charge{c}, nil)
		if err == nil {
			d = ds[0]
		}
		return err
	})
	return d, v, err
}

// payInBackground pays all debts, so that keys of which nobody asks this replica are paid for too.
func (s *Store) payInBackground() {
	if s.memories.owing.Load() == 0 || s.paying.Swap(true) {
		return
	}
	s.running.Go(func() {
		defer s.paying.Store(false)
		s.payAll()
	})
}

func (s *Store) payAll() {
	work := make(chan tidegate.Charge)
	var all sync.WaitGroup
	for range payers {
		all.Go(func() {
			for c := range work {
				s.settleKey(context.Background(), &c)
			}
		})
	}
	defer all.Wait()
	defer close(work)
	for i := range s.memories.shards {
		for _, c := range s.memories.debtors(i) {
			if _, closed := s.breaker.begin(); !closed {
				return // the rest when the store is back again
			}
			select {
			case work <- c:
			case <-s.stop:
				return
			}
		}
	}
}

// debtors returns charges that name the keys of a shard that owe something.
func (ms *memories) debtors(shard int) (cs []tidegate.Charge) {
	sh := &ms.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, m := range sh.keys {
		if len(m.debts) > 0 {
			cs = append(cs, m.debts[0].charge)
		}
	}
	return cs
}
