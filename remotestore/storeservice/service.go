package storeservice

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Config says how a [Service] works. All fields but Store have defaults.
type Config struct {
	// Store decides. Required; the caller closes it.
	Store tidegate.Store
	// Token is what clients send as "authorization: Bearer TOKEN". Default: none, and then every call is refused.
	Token string
	// Together is how many takes of a batch are asked of the store at once. 1 suits a store in this process, which then
	// decides a batch in its order. One that is a round trip away wants 128 or so, and gathers them itself; takes of a batch, which
	// all waited at the same time, are then decided in no certain order. At most 1024. Default: 1.
	Together int
	// MaxTime bounds how long a call may take, whatever its client allows. Default: 10 s.
	MaxTime time.Duration
}

// MaxTakes and MaxCharges bound a call: so many takes, and so many charges in all of them.
const (
	MaxTakes   = 1024
	MaxCharges = 8192
)

// Service is the gRPC service tidegate.v1.Store on a store. Create it with [New].
type Service struct {
	storev1.UnimplementedStoreServer

	cfg    Config
	token  *[sha256.Size]byte
	limits wire.Table
}

// New returns the service on a store.
func New(cfg *Config) (*Service, error) {
	if cfg == nil || cfg.Store == nil {
		return nil, errors.New("storeservice: Config.Store is nil: give the store that decides")
	}
	s := &Service{cfg: *cfg}
	if s.cfg.Together < 0 || s.cfg.Together > MaxTakes {
		return nil, errors.New("storeservice: Together must be from 1 to 1024: leave it 0 for the default of 1")
	}
	if s.cfg.MaxTime < 0 {
		return nil, errors.New("storeservice: MaxTime must not be negative: leave it 0 for the default of 10s")
	}
	if s.cfg.Together == 0 {
		s.cfg.Together = 1
	}
	if s.cfg.MaxTime == 0 {
		s.cfg.MaxTime = 10 * time.Second
	}
	if s.cfg.Token != "" {
		hash := sha256.Sum256([]byte(s.cfg.Token))
		s.token = &hash
	}
	return s, nil
}

// Register registers the service with a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { storev1.RegisterStoreServer(r, s) }

// begin lets a call in and bounds it, or returns the status of one that is refused.
func (s *Service) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := s.authorize(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.MaxTime)
	return bounded, cancel, nil
}

// authorize compares hashes, which tells nothing of the token, not even its length.
func (s *Service) authorize(ctx context.Context) error {
	if s.token == nil {
		return status.Error(codes.PermissionDenied, "calls need a token, and this server has none: "+
			"start it with --token-file FILE or the variable TIDEGATE_TOKEN")
	}
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return status.Error(codes.Unauthenticated, `calls need the token: send it once, as "authorization: Bearer TOKEN"`)
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return status.Error(codes.Unauthenticated, `calls need the token: send it as "authorization: Bearer TOKEN"`)
	}
	sent := sha256.Sum256([]byte(strings.TrimLeft(secret, " ")))
	if subtle.ConstantTimeCompare(sent[:], s.token[:]) != 1 {
		return status.Error(codes.Unauthenticated, "the token is not this server's")
	}
	return nil
}

// Settle implements [storev1.StoreServer].
func (s *Service) Settle(ctx context.Context, r *storev1.SettleRequest) (*storev1.SettleResponse, error) {
	f, err := s.apply(ctx, r, func(ctx context.Context, charges []tidegate.Charge) error {
		return s.cfg.Store.Settle(ctx, string(r.GetId()), charges, r.GetCost())
	})
	return &storev1.SettleResponse{Failure: f}, err
}

// Renew implements [storev1.StoreServer].
func (s *Service) Renew(ctx context.Context, r *storev1.RenewRequest) (*storev1.RenewResponse, error) {
	f, err := s.apply(ctx, r, func(ctx context.Context, charges []tidegate.Charge) error {
		return s.cfg.Store.Renew(ctx, string(r.GetId()), charges)
	})
	return &storev1.RenewResponse{Failure: f}, err
}

// Release implements [storev1.StoreServer].
func (s *Service) Release(ctx context.Context, r *storev1.ReleaseRequest) (*storev1.ReleaseResponse, error) {
	f, err := s.apply(ctx, r, func(ctx context.Context, charges []tidegate.Charge) error {
		return s.cfg.Store.Release(ctx, string(r.GetId()), charges)
	})
	return &storev1.ReleaseResponse{Failure: f}, err
}

// Reset implements [storev1.StoreServer].
func (s *Service) Reset(ctx context.Context, r *storev1.ResetRequest) (*storev1.ResetResponse, error) {
	f, err := s.apply(ctx, r, s.cfg.Store.Reset)
	return &storev1.ResetResponse{Failure: f}, err
}

// Now implements [storev1.StoreServer].
func (s *Service) Now(ctx context.Context, _ *storev1.NowRequest) (*storev1.NowResponse, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	now, err := s.cfg.Store.Now(ctx)
	if err != nil {
		return &storev1.NowResponse{Failure: wire.Failure(err)}, nil
	}
	return &storev1.NowResponse{Now: now.UnixNano()}, nil
}

// named is a request that names buckets.
type named interface {
	GetLimits() []*storev1.Limit
	GetCharges() []*storev1.Charge
}

// apply does with the charges of a request what f does.
func (s *Service) apply(ctx context.Context, r named, f func(context.Context, []tidegate.Charge) error) (*storev1.Failure, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if n, m := len(r.GetCharges()), len(r.GetLimits()); n > MaxCharges || m > MaxCharges {
		return nil, tooMany(0, n, m)
	}
	charges, err := wire.ReadCharges(nil, r.GetCharges(), s.limits.Read(r.GetLimits()))
	switch {
	case errors.Is(err, wire.ErrPlace):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case err != nil:
		return wire.Failure(err), nil
	}
	return wire.Failure(f(ctx, charges)), nil
}
