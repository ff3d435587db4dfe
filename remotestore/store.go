package remotestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/internal/lease"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Config says how a [Store] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Token is the server's bearer token, which every call carries: without TLS anybody on the way can read it.
	// Default: none, which servers refuse.
	Token string
	// TLS is how connections are secured; an empty one is TLS with the machine's certificates. Default: none, they are not.
	TLS *tls.Config
	// Timeout bounds a call, connecting included, where its context does not end before. Default: 1 s.
	Timeout time.Duration
	// NoLeases asks the server for every take, also of limits with a lease, and lets the server's store take tokens ahead
	// instead. By default this process does, and the server does not do so too.
	NoLeases bool
}

// Store is a [tidegate.Store] that asks a server. Create it with [Open] or [New] and close it when done.
type Store struct {
	cfg     Config
	client  storev1.StoreClient
	conn    *grpc.ClientConn // of its own; nil for that of a caller
	sent    metadata.MD      // with every call
	started time.Time
	closed  atomic.Bool

	leases  *lease.Layer
	batches dispatcher
}

var _ tidegate.Store = (*Store)(nil)

// Open returns a store on the server at an address: host:port, or unix:path. It does not connect yet, so that a service
// can start before its server does, and connects anew by itself. A nil config is the default. The error says what is
// wrong with the address or the config.
func Open(address string, cfg *Config) (*Store, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	if s.conn, err = dial(address, s.cfg.TLS); err != nil {
		return nil, err
	}
	s.start(s.conn)
	return s, nil
}

// New returns a store on a connection of the caller's, who closes it. It should not be one that makes calls again, as a
// retry policy of a service config does: a take may have run. Config.TLS is the connection's affair, and must be nil.
func New(conn grpc.ClientConnInterface, cfg *Config) (*Store, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("remotestore: the connection is nil")
	}
	if s.cfg.TLS != nil {
		return nil, errors.New("remotestore: Config.TLS has no effect on a connection that was made before: leave it nil")
	}
	s.start(conn)
	return s, nil
}

func newStore(cfg *Config) (*Store, error) {
	s := &Store{started: time.Now()}
	if cfg != nil {
		s.cfg = *cfg
	}
	if s.cfg.Timeout < 0 {
		return nil, fmt.Errorf("remotestore: a timeout of %v: leave it 0 for the default of 1s", s.cfg.Timeout)
	}
	if s.cfg.Timeout == 0 {
		s.cfg.Timeout = time.Second
	}
	if s.cfg.Token != "" {
		if !printable(s.cfg.Token) {
			return nil, errors.New("remotestore: the token has spaces, line ends or signs that are not ASCII: trim it, or choose another one")
		}
		s.sent = metadata.Pairs("authorization", "Bearer "+s.cfg.Token)
	}
	return s, nil
}

// printable reports whether a token can be sent in a header, and comes out as it was.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func (s *Store) start(conn grpc.ClientConnInterface) {
	s.client = storev1.NewStoreClient(conn)
	s.leases = lease.New(lease.Config{Take: s.takeStrict, Wait: s.cfg.Timeout})
	s.batches.init(s)
}

// elapsed returns how long ago the store was made.
func (s *Store) elapsed() time.Duration { return time.Since(s.started) }

// Close closes the store's connections. Calls under way fail.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.leases.Close()
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// Stats tells what a [Store] did without asking the server. The numbers only grow.
type Stats struct {
	LeaseTaken  int64 // tokens taken ahead for leases
	LeaseSpent  int64 // of these, tokens that takes have spent
	LeaseLapsed int64 // of these, tokens that have lapsed unspent; counted within about a second
	LeaseTakes  int64 // takes decided from leases alone
}

// Stats returns what the store did without asking the server.
func (s *Store) Stats() Stats {
	l := s.leases.Stats()
	return Stats{LeaseTaken: l.Taken, LeaseSpent: l.Spent, LeaseLapsed: l.Lapsed, LeaseTakes: l.Takes}
}

// Now returns the clock of the server's store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.ready(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	bounded, cancel := s.bound(ctx)
	defer cancel()
	r, err := s.client.Now(bounded, &storev1.NowRequest{})
	if err != nil {
		return time.Time{}, s.failure(ctx, "now", err)
	}
	if err := wire.ReadFailure("now", r.GetFailure()); err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, r.GetNow()), nil
}

// Settle implements [tidegate.Store].
func (s *Store) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if cost < 0 {
		return algo.ErrNegativeCost
	}
	return s.apply(ctx, "settle", charges, func(ctx context.Context, ls []*storev1.Limit, cs []*storev1.Charge) (failed, error) {
		return s.client.Settle(ctx, &storev1.SettleRequest{Limits: ls, Charges: cs, Id: []byte(id), Cost: cost})
	})
}

// Renew implements [tidegate.Store].
func (s *Store) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.apply(ctx, "renew", charges, func(ctx context.Context, ls []*storev1.Limit, cs []*storev1.Charge) (failed, error) {
		return s.client.Renew(ctx, &storev1.RenewRequest{Limits: ls, Charges: cs, Id: []byte(id)})
	})
}

// Release implements [tidegate.Store].
func (s *Store) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.apply(ctx, "release", charges, func(ctx context.Context, ls []*storev1.Limit, cs []*storev1.Charge) (failed, error) {
		return s.client.Release(ctx, &storev1.ReleaseRequest{Limits: ls, Charges: cs, Id: []byte(id)})
	})
}

// Reset implements [tidegate.Store]. Leases of these buckets end here; those that other processes hold lapse by themselves.
func (s *Store) Reset(ctx context.Context, charges []tidegate.Charge) error {
	s.leases.Reset(charges)
	defer s.leases.Reset(charges)
	return s.apply(ctx, "reset", charges, func(ctx context.Context, ls []*storev1.Limit, cs []*storev1.Charge) (failed, error) {
		return s.client.Reset(ctx, &storev1.ResetRequest{Limits: ls, Charges: cs})
	})
}

// failed is a response that says of one thing whether it failed.
type failed interface{ GetFailure() *storev1.Failure }

// call is one about buckets, named by charges that refer to the limits.
type call func(ctx context.Context, limits []*storev1.Limit, charges []*storev1.Charge) (failed, error)

// apply makes a call about the buckets that the charges name.
func (s *Store) apply(ctx context.Context, op string, charges []tidegate.Charge, f call) error {
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	named := make([]tidegate.Charge, len(charges))
	for i := range charges {
		named[i] = algo.Named(&charges[i])
		if err := algo.CheckCharge(&named[i]); err != nil {
			return err
		}
	}
	if err := fits(named); err != nil {
		return err
	}
	ls := wire.Limits{NoLease: !s.cfg.NoLeases}
	messages := ls.Charges(nil, named)
	bounded, cancel := s.bound(ctx)
	defer cancel()
	r, err := f(bounded, ls.All, messages)
	if err != nil {
		return s.failure(ctx, op, err)
	}
	return wire.ReadFailure(op, r.GetFailure())
}
