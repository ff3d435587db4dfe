package envoy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
)

// ServiceConfig says how a [Service] answers. Store is required; the zero values of all others are the documented default.
type ServiceConfig struct {
	// Store decides. It stays the caller's to close.
	Store tidegate.Store
	// Headers adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to answers, as LIMIT_RESPONSE_HEADERS_ENABLED
	// does. Default: off.
	Headers bool
	// DynamicMetadata adds what was asked, and the metadata of the limits that were kept to, as RESPONSE_DYNAMIC_METADATA
	// does. Default: off.
	DynamicMetadata bool
	// Shadow lets everything pass and counts, as SHADOW_MODE does. Default: off.
	Shadow bool
	// Quota treats all limits as ones in quota mode, as QUOTA_MODE does. Default: off.
	Quota bool
	// Metrics counts under the names that envoyproxy/ratelimit has. Default: none, nothing is counted so.
	Metrics *Metrics
	// Decided is told of each decision that was made by a limit, and must not keep it. Default: none.
	Decided func(*tidegate.Decision)
	// Counted is told of each limit that a request was charged to, what it said and whether it is in shadow, and must not
	// keep it. Default: none.
	Counted func(rule string, d *tidegate.Decision, shadow bool)
}

// A Service answers envoy.service.ratelimit.v3.RateLimitService. It has nothing to decide by until [Service.Set] is called.
type Service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	cfg       ServiceConfig
	current   atomic.Pointer[serving]
	info      grpc.UnaryServerInfo
	exchanges sync.Pool // of *exchange
}

// serving is what requests are answered by; a request sees one of them alone.
type serving struct {
	config  *Config
	brought overrides
}

// NewService returns a service that has no config yet.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Store == nil {
		return nil, errors.New("envoy: the store is nil: give NewService one")
	}
	s := &Service{cfg: cfg}
	s.info = grpc.UnaryServerInfo{Server: s, FullMethod: ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}
	s.exchanges.New = func() any { return newExchange(s) }
	return s, nil
}

// Set makes the config the one that all later requests are answered by. Limits that are as they were before keep their
// version, so that buckets see no change where there is none.
func (s *Service) Set(c *Config) {
	if before := s.current.Load(); before != nil {
		c.keep(before.config)
	}
	if s.cfg.Metrics != nil {
		s.cfg.Metrics.attach(c)
	}
	s.current.Store(&serving{config: c, brought: overrides{algorithm: c.algorithm}})
}

// Ready reports whether there is a config to decide by.
func (s *Service) Ready() bool { return s.current.Load() != nil }

// ShouldRateLimit answers a request of a proxy. The request and the answer are the caller's.
func (s *Service) ShouldRateLimit(ctx context.Context, req *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return s.shouldRateLimit(ctx, req, new(answered))
}

func (s *Service) shouldRateLimit(ctx context.Context, req *ratelimitv3.RateLimitRequest, in *answered) (*ratelimitv3.RateLimitResponse, error) {
	m := s.cfg.Metrics
	if m == nil {
		resp, err := s.answerIn(ctx, req, in)
		return resp, coded(err)
	}
	start := time.Now()
	resp, err := s.answerIn(ctx, req, in)
	m.called(time.Since(start))
	return resp, coded(err)
}

// coded gives an error the code of gRPC.
func coded(err error) error {
	if err == nil {
		return nil
	}
	code := codes.Unavailable
	if _, ok := errors.AsType[*RequestError](err); ok {
		code = codes.InvalidArgument
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, tidegate.ErrStore) {
		return status.FromContextError(err).Err()
	}
	return status.Error(code, err.Error())
}

// Answer decides a request. The error is a [*RequestError], [ErrNoConfig], or the store's; it is counted.
func (s *Service) Answer(ctx context.Context, req *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return s.answerIn(ctx, req, new(answered))
}

func (s *Service) answerIn(ctx context.Context, req *ratelimitv3.RateLimitRequest, in *answered) (*ratelimitv3.RateLimitResponse, error) {
	resp, err := s.answer(ctx, req, in)
	if err != nil && s.cfg.Metrics != nil {
		s.cfg.Metrics.failed(err)
	}
	return resp, err
}

func (s *Service) answer(ctx context.Context, req *ratelimitv3.RateLimitRequest, in *answered) (*ratelimitv3.RateLimitResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	current := s.current.Load()
	if current == nil {
		return nil, ErrNoConfig
	}
	w := works.Get().(*work)
	defer w.release()
	if d := current.config.domains[req.GetDomain()]; d != nil {
		if err := s.collect(w, current, d, req); err != nil {
			return nil, err
		}
	} else {
		w.none(len(req.GetDescriptors()))
		if s.cfg.Metrics != nil {
			s.cfg.Metrics.unknownDomain.Add(1)
		}
	}
	if len(w.charges) > 0 {
		var err error
		if w.decisions, err = s.cfg.Store.Take(ctx, w.charges, w.decisions[:0]); err != nil {
			return nil, err
		}
		s.tell(w)
	}
	return s.respond(w, req, in), nil
}

// collect matches the descriptors, and makes a charge of each that has a limit.
func (s *Service) collect(w *work, current *serving, d *domain, req *ratelimitv3.RateLimitRequest) error {
	replacing := false
	for _, desc := range req.GetDescriptors() {
		a := asked{charge: -1}
		var err error
		if a.cost, err = costOf(req, desc); err != nil {
			return err
		}
		if desc.GetLimit() != nil {
			if a.limit, err = current.brought.of(d.name, desc); err != nil {
				return err
			}
		} else {
			a.limit = d.match(desc)
		}
		replacing = replacing || a.limit != nil && len(a.limit.replaces) > 0
		w.asked = append(w.asked, a)
	}
	if replacing {
		w.replace()
	}
	for i := range w.asked {
		a := &w.asked[i]
		if a.limit == nil || a.limit.unlimited {
			continue
		}
		a.charge = len(w.charges)
		w.charges = append(w.charges, tidegate.Charge{
			Rule:    a.limit.rule,
			Key:     a.limit.keyOf(req.GetDescriptors()[i]),
			Limit:   &a.limit.limit,
			Version: a.limit.version,
			Cost:    a.cost,
			Shadow:  a.limit.shadow || s.quota(a.limit) || s.cfg.Shadow,
		})
	}
	return nil
}

// quota reports whether a limit only tells when it is exceeded.
func (s *Service) quota(l *limit) bool { return l.quota || s.cfg.Quota }

// tell counts what was decided.
func (s *Service) tell(w *work) {
	if s.cfg.Counted != nil {
		for i := range w.asked {
			if a := &w.asked[i]; a.charge >= 0 && a.cost > 0 {
				s.cfg.Counted(a.limit.label, &w.decisions[a.charge], w.charges[a.charge].Shadow)
			}
		}
	}
	if s.cfg.Decided == nil {
		return
	}
	counts := false
	for i := range w.charges {
		counts = counts || w.charges[i].Cost > 0
	}
	if !counts {
		return // a peek or a refund
	}
	d := tidegate.Combine(w.charges, w.decisions)
	for i := range w.asked {
		if a := &w.asked[i]; a.charge >= 0 && a.limit.rule == d.Rule {
			d.Rule = a.limit.label
			break
		}
	}
	s.cfg.Decided(&d)
}
