package tidegate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how a [Limiter] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Rule names the limit in decisions, and its buckets in the store.
	// Default: the limit's text, so that limiters of different limits never share a bucket by accident.
	// Name it if the limit may change from one release to the next: its buckets then keep what was spent.
	Rule string
	// Version is when the limit was changed, in microseconds since the Unix epoch; see [Charge.Version].
	// Default: 0, a limit that is part of the program; [Limiter.SetLimit] goes before it.
	Version int64
	// MaxWait is the longest that [Limiter.Reserve] and [Limiter.Wait] accept to wait.
	// Default: one period; for a leaky bucket, as long as its queue is.
	MaxWait time.Duration
	// SettleWithin is how long after its start a reservation can be settled. Default: 1 h.
	SettleWithin time.Duration
	// OnStoreFailure says what decides when the store fails, in a store that falls back. Default: local.
	OnStoreFailure FailurePolicy
	// KeyBy is the attribute that [Limiter.Decide] takes the key from. Default: "ip".
	KeyBy string
}

// A Limiter keeps one limit for any number of keys. It is safe for concurrent use; create it with [New].
type Limiter struct {
	store   Store
	cfg     Config
	bound   BoundRule // nil where the store has no shorter way
	current atomic.Pointer[version]
}

// version is a limit and when it was changed; immutable.
type version struct {
	limit   Limit
	version int64
	maxWait time.Duration
}

// New returns a limiter that keeps the limit in the store. A nil config is the default.
// The error is the [*LimitError] of an invalid limit, or says what is wrong with the config.
func New(store Store, limit Limit, cfg *Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("tidegate: the store is nil: give New one, such as memstore.New(nil)")
	}
	l := &Limiter{store: store}
	if cfg != nil {
		l.cfg = *cfg
	}
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	if l.cfg.MaxWait < 0 || l.cfg.SettleWithin < 0 {
		return nil, fmt.Errorf("tidegate: MaxWait %v and SettleWithin %v must not be negative: leave them 0 for the default",
			l.cfg.MaxWait, l.cfg.SettleWithin)
	}
	if s := l.cfg.OnStoreFailure.Share; s < 0 || s > 1 {
		return nil, fmt.Errorf("tidegate: OnStoreFailure.Share %v must be above 0 and at most 1, or 0 for one that follows the demand", s)
	}
	limit = limit.Normalize()
	if l.cfg.Rule == "" {
		l.cfg.Rule = limit.String()
	}
	if l.cfg.KeyBy == "" {
		l.cfg.KeyBy = "ip"
	}
	if l.cfg.SettleWithin == 0 {
		l.cfg.SettleWithin = time.Hour
	}
	l.set(limit, l.cfg.Version)
	l.bound = l.bind()
	return l, nil
}

func (l *Limiter) set(limit Limit, at int64) {
	v := &version{limit: limit, version: at, maxWait: l.cfg.MaxWait}
	if v.maxWait == 0 {
		v.maxWait = defaultMaxWait(limit)
	}
	l.current.Store(v)
}

// defaultMaxWait is a period, or the time that a full queue needs, up to the next tick.
func defaultMaxWait(l Limit) time.Duration {
	switch {
	case l.Algorithm == LeakyBucket:
		tick, err := l.Resolution()
		if err != nil {
			return l.Per // of a limit that is not valid, and never gets here
		}
		return time.Duration(float64(l.Per)/float64(l.Rate)*float64(l.Queue+1)) + tick
	case l.Calendar == CalendarDay:
		return 25 * time.Hour
	case l.Calendar == CalendarWeek:
		return (7*24 + 1) * time.Hour
	case l.Calendar == CalendarMonth:
		return 31 * 25 * time.Hour
	case l.Calendar == CalendarYear:
		return 367 * 24 * time.Hour
	}
	return l.Per
}

// Limit returns the limit, normalized.
func (l *Limiter) Limit() Limit { return l.current.Load().limit }

// Rule returns the name of the limit in decisions.
func (l *Limiter) Rule() string { return l.cfg.Rule }

// KeyBy returns the attribute that [Limiter.Decide] takes the key from.
func (l *Limiter) KeyBy() string { return l.cfg.KeyBy }

// SetLimit changes the limit from now, on the store's clock. Buckets keep the share that is in use, and what they
// refilled before the change they did at the old rate. The error is a [*LimitError], or the store's.
//
// Other processes have limiters of their own; a bucket keeps the newest limit that any of them brought.
func (l *Limiter) SetLimit(ctx context.Context, limit Limit) error {
	if err := limit.Validate(); err != nil {
		return err
	}
	now, err := l.store.Now(ctx)
	if err != nil {
		return err
	}
	l.set(limit.Normalize(), max(now.UnixMicro(), l.current.Load().version+1))
	return nil
}

// takeBuffer spares a take its allocations.
type takeBuffer struct {
	charges   [1]Charge
	decisions [1]Decision
}

var takeBuffers = sync.Pool{New: func() any { return new(takeBuffer) }}

func (l *Limiter) charge(v *version, key string, cost int64) Charge {
	return Charge{
		Rule:      l.cfg.Rule,
		Key:       key,
		Limit:     &v.limit,
		Version:   v.version,
		Cost:      cost,
		OnFailure: l.cfg.OnStoreFailure,
	}
}

func (l *Limiter) take(ctx context.Context, c *Charge) (Decision, error) {
	b := takeBuffers.Get().(*takeBuffer)
	b.charges[0] = *c
	ds, err := l.store.Take(ctx, b.charges[:], b.decisions[:0])
	var d Decision
	if err == nil {
		d = ds[0]
	}
	b.charges[0] = Charge{}
	b.decisions[0] = Decision{}
	takeBuffers.Put(b)
	return d, err
}

// Allow is AllowN with a cost of 1.
func (l *Limiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	if l.bound == nil {
		return l.AllowN(ctx, key, 1)
	}
	v := l.current.Load() // as AllowN does, whose Decision is not copied
	o, w, err := l.bound.Take(ctx, key, &v.limit, v.version, 1)
	if err == nil {
		d.join(o, w, l.cfg.Rule)
	}
	return d, err
}

// AllowN charges n tokens now or not at all. With n 0 it is [Limiter.Peek]; a negative n refunds, never above capacity.
// On a leaky bucket an allowed take waits for the decision's Delay before it starts.
// Permits are taken with [Limiter.Acquire] instead.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (d Decision, err error) {
	v := l.current.Load()
	if l.bound == nil {
		c := l.charge(v, key, n)
		return l.take(ctx, &c)
	}
	o, w, err := l.bound.Take(ctx, key, &v.limit, v.version, n)
	if err == nil {
		d.join(o, w, l.cfg.Rule)
	}
	return d, err
}

// Peek answers whether a cost of 1 would pass, and what remains. It charges nothing and writes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.AllowN(ctx, key, 0)
}

// Decide charges cost to the bucket that the attribute KeyBy names. Without that attribute the limit does not apply.
func (l *Limiter) Decide(ctx context.Context, attributes Attributes, cost int64) (Decision, error) {
	key, ok := attributes.Attribute(l.cfg.KeyBy)
	if !ok {
		return Combine(nil, nil), nil
	}
	return l.AllowN(ctx, key, cost)
}

// Reset makes the key's bucket as good as new.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.store.Reset(ctx, l.charges(key))
}

// charges names the bucket of the key for the operations that only need its name.
func (l *Limiter) charges(key string) []Charge {
	return []Charge{l.charge(l.current.Load(), key, 0)}
}

// newID returns 130 random bits in 26 letters and digits.
func newID() string { return rand.Text() }
