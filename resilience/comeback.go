package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// payers is how many debts are paid at a time in the background.
const payers = 8

// payment makes the shared store know of one key what this replica knows: what was admitted alone, and, if the store lost
// its data, what it had. It goes on beside whoever waits for it, who is bounded by a deadline or may leave.
type payment struct {
	key   tidegate.Charge // names it
	m     *memory
	debts []debt
	inUse int64  // of the bucket, as this replica remembers it
	lost  bool   // the store may not remember that
	was   uint32 // the life of the store's data of which it is remembered

	done chan struct{}
	ok   bool  // whether the store knows now; to be read when it is done, as err is
	err  error // why it could not be asked
}

// settleUp settles the charges' keys before the shared store is asked of them, and reports whether they are before the
// context ends, or why the store could not even be asked.
func (s *Store) settleUp(ctx context.Context, charges []tidegate.Charge) (settled bool, err error) {
	var all []*payment
	for i := range charges {
		if c := &charges[i]; c.Limit != nil && counted(c) && c.Cost >= 0 {
			if p := s.settling(c); p != nil {
				all = append(all, p)
			}
		}
	}
	for _, p := range all {
		select {
		case <-p.done:
			if !p.ok {
				return false, p.err
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// settling returns the payment of a key that is under way, or begins the one that is due; nil if none is.
func (s *Store) settling(c *tidegate.Charge) *payment {
	sh, m := s.memories.lock(c.Rule, c.Key)
	if m == nil {
		sh.mu.Unlock()
		return nil
	}
	if p := m.paying; p != nil {
		sh.mu.Unlock()
		return p
	}
	lives := s.lives.Load()
	pays := len(m.debts) > 0 && s.owedNow.Load()
	if m.lives == lives && !pays {
		sh.mu.Unlock()
		return nil
	}
	now := s.now()
	lost := m.lives != lives && m.full > now
	if !lost && !pays {
		sh.mu.Unlock()
		return nil
	}
	p := &payment{key: algo.Named(c), m: m, lost: lost, was: m.lives, inUse: m.limit.Capacity() - m.remaining(now), done: make(chan struct{})}
	if pays {
		p.debts, m.debts = m.debts, nil
	}
	m.paying, m.lives = p, lives
	sh.mu.Unlock()
	if !s.spawn(func() { s.settle(p) }) {
		s.settled(p, false, p.debts)
	}
	return p
}

// settle makes a payment. Each of its calls is bounded by the deadline, and when the breaker opens it gives up.
func (s *Store) settle(p *payment) {
	ctx := context.Background()
	unpaid := p.debts
	restored := !p.lost || s.restore(ctx, p)
	if restored && s.answers(ctx, p) {
		unpaid = nil
		for i := range p.debts {
			if left := s.payDebt(ctx, &p.debts[i]); left > 0 {
				p.debts[i].left = left
				unpaid = append(unpaid, p.debts[i])
			}
		}
	}
	s.settled(p, restored, unpaid)
}

// answers reports whether the store can be charged. If it has just failed it is asked first, since a charge whose answer does
// not come may have run and is not sent again.
func (s *Store) answers(ctx context.Context, p *payment) bool {
	begun, closed := s.breaker.begin()
	if !closed || begun&maxFailures == 0 {
		return closed
	}
	_, v, err := s.askPlainly(ctx, begun, p.key)
	if v == failed {
		p.err = err
	}
	return v != failed
}

// settled ends a payment, of which some debts may be left, and the loss of data may still have to be made good.
func (s *Store) settled(p *payment, restored bool, unpaid []debt) {
	sh, there := s.memories.lock(p.key.Rule, p.key.Key)
	defer sh.mu.Unlock()
	p.ok = restored && len(unpaid) == 0
	close(p.done)
	m := p.m
	m.paying = nil
	if !restored {
		m.lives = p.was
	}
	if there != m {
		s.memories.forgot.Add(int64(len(unpaid)))
		return
	}
	if m.debts = append(unpaid, m.debts...); len(m.debts) == 0 && m.owing {
		m.owing = false
		s.memories.owing.Add(-1)
	}
}

// restore charges what the store has not in use of a bucket of which this replica remembers that it was, and reports
// whether it knows now. To try again is to ask it again what it has.
func (s *Store) restore(ctx context.Context, p *payment) bool {
	begun, closed := s.breaker.begin()
	if !closed {
		return false
	}
	ds, v, err := s.askPlainly(ctx, begun, p.key) // a peek
	if v != answered {
		p.err = err
		return v != failed
	}
	has := ds.Limit - ds.Remaining
	if capacity := p.key.Limit.Capacity(); ds.Limit != capacity && ds.Limit > 0 {
		has = int64(float64(has) / float64(ds.Limit) * float64(capacity))
	}
	if p.inUse <= has {
		return true
	}
	_, again := s.charge(ctx, p.key, p.inUse-has)
	return again == 0
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
	pay := func() {
		defer s.paying.Store(false)
		s.payAll(s.stop)
	}
	if !s.spawn(pay) {
		s.paying.Store(false)
	}
}

// payBeforeLeaving pays what would go with this replica, although others may not be back yet.
func (s *Store) payBeforeLeaving() {
	const most = time.Second
	if _, closed := s.breaker.begin(); !closed || s.memories.owing.Load() == 0 {
		return
	}
	s.owedNow.Store(true)
	stop := make(chan struct{})
	timer := time.AfterFunc(most, func() { close(stop) })
	defer timer.Stop()
	s.payAll(stop)
}

// payAll pays all debts that there are, or until it is told to stop, or the store goes away again.
func (s *Store) payAll(stop <-chan struct{}) {
	if s.steps != nil {
		s.payInLine()
		return
	}
	work := make(chan tidegate.Charge)
	var all sync.WaitGroup
	for range payers {
		all.Go(func() {
			for c := range work {
				if p := s.settling(&c); p != nil {
					<-p.done
				}
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
			case <-stop:
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
	for m := range sh.all {
		if len(m.debts) > 0 {
			cs = append(cs, m.debts[0].charge)
		}
	}
	return cs
}
