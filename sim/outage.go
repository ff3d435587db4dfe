package sim

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/registry"
	"github.com/tidegate-go/tidegate/memstore"
)

// An Outage is when the store that the replicas share cannot be reached: connections are refused. It keeps its data.
type Outage struct {
	From time.Time // the first moment at which it cannot
	To   time.Time // the first at which it can again
}

func checkOutages(all []Outage) error {
	for i, o := range all {
		switch {
		case !o.From.Before(o.To):
			return fmt.Errorf("sim: an outage from %s to %s: it must end after it begins", stamp(o.From), stamp(o.To))
		case i > 0 && o.From.Before(all[i-1].To):
			return fmt.Errorf("sim: an outage from %s begins before the one before it ends, at %s: give them in the order of time, apart",
				stamp(o.From), stamp(all[i-1].To))
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.Format(time.RFC3339) }

// shared is the store that all replicas share, with their table: what Redis is to live ones.
type shared struct {
	store   *memstore.Store
	table   registry.Table
	now     func() time.Time
	outages []Outage // those that have not ended
}

var _ tidegate.Registry = (*shared)(nil)

// next returns the outage that has not ended yet at a moment; no later call may be of an earlier one.
func (s *shared) next(now time.Time) (o Outage, ok bool) {
	for len(s.outages) > 0 && !now.Before(s.outages[0].To) {
		s.outages = s.outages[1:]
	}
	if len(s.outages) == 0 {
		return o, false
	}
	return s.outages[0], true
}

// reached returns the error of a call in an outage.
func (s *shared) reached(op string) error {
	now := s.now()
	if o, ok := s.next(now); !ok || now.Before(o.From) {
		return nil
	}
	return &tidegate.StoreError{Op: op, Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}
}

// Take implements [tidegate.Store].
func (s *shared) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := s.reached("take"); err != nil {
		return dst, err
	}
	return s.store.Take(ctx, charges, dst)
}

// Settle implements [tidegate.Store].
func (s *shared) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if err := s.reached("settle"); err != nil {
		return err
	}
	return s.store.Settle(ctx, id, charges, cost)
}

// Renew implements [tidegate.Store].
func (s *shared) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	if err := s.reached("renew"); err != nil {
		return err
	}
	return s.store.Renew(ctx, id, charges)
}

// Release implements [tidegate.Store].
func (s *shared) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	if err := s.reached("release"); err != nil {
		return err
	}
	return s.store.Release(ctx, id, charges)
}

// Reset implements [tidegate.Store].
func (s *shared) Reset(ctx context.Context, charges []tidegate.Charge) error {
	if err := s.reached("reset"); err != nil {
		return err
	}
	return s.store.Reset(ctx, charges)
}

// Now implements [tidegate.Store].
func (s *shared) Now(ctx context.Context) (time.Time, error) {
	if err := s.reached("now"); err != nil {
		return time.Time{}, err
	}
	return s.store.Now(ctx)
}

// Beat implements [tidegate.Registry].
func (s *shared) Beat(_ context.Context, b tidegate.Beat) (tidegate.Table, error) {
	if err := s.reached("beat"); err != nil {
		return tidegate.Table{}, err
	}
	return s.table.Beat(&b, s.now().UnixMicro()), nil
}

// Close does nothing: all replicas share the store, and the Sim closes it.
func (*shared) Close() error { return nil }
