package tidegate

import "context"

// A KeyLimiter is a view of a [Limiter] bound to one key. Its methods read like those of rate.Limiter in
// golang.org/x/time.
type KeyLimiter struct {
	limiter *Limiter
	key     string
	bound   BoundKey // nil where the store has no shorter way
}

// Key returns the view of the limiter for one key. It is cheap: no bucket is created until something is charged. One that is
// kept for a key that is asked for often finds the bucket faster than the limiter does.
func (l *Limiter) Key(key string) *KeyLimiter {
	k := &KeyLimiter{limiter: l, key: key}
	if l.bound != nil {
		k.bound = l.bound.Key(key)
	}
	return k
}

// Allow charges one token now or not at all.
func (k *KeyLimiter) Allow(ctx context.Context) (d Decision, err error) {
	if k.bound == nil {
		return k.limiter.AllowN(ctx, k.key, 1)
	}
	v := k.limiter.current.Load() // as AllowN does, whose Decision is not copied
	o, w, err := k.bound.Take(ctx, &v.limit, v.version, 1)
	if err == nil {
		d.join(o, w, k.limiter.cfg.Rule)
	}
	return d, err
}

// AllowN charges n tokens now or not at all; see [Limiter.AllowN].
func (k *KeyLimiter) AllowN(ctx context.Context, n int64) (d Decision, err error) {
	if k.bound == nil {
		return k.limiter.AllowN(ctx, k.key, n)
	}
	v := k.limiter.current.Load()
	o, w, err := k.bound.Take(ctx, &v.limit, v.version, n)
	if err == nil {
		d.join(o, w, k.limiter.cfg.Rule)
	}
	return d, err
}

// Reserve charges one token for a start that may be later; see [Limiter.ReserveN].
func (k *KeyLimiter) Reserve(ctx context.Context) (*Reservation, error) {
	return k.limiter.Reserve(ctx, k.key)
}

// ReserveN charges n tokens for a start that may be later; see [Limiter.ReserveN].
func (k *KeyLimiter) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return k.limiter.ReserveN(ctx, k.key, n)
}

// Wait charges one token and sleeps until it may be used; see [Limiter.WaitN].
func (k *KeyLimiter) Wait(ctx context.Context) error { return k.limiter.Wait(ctx, k.key) }

// WaitN charges n tokens and sleeps until they may be used; see [Limiter.WaitN].
func (k *KeyLimiter) WaitN(ctx context.Context, n int64) error {
	return k.limiter.WaitN(ctx, k.key, n)
}

// Peek answers whether a cost of 1 would pass, and what remains.
func (k *KeyLimiter) Peek(ctx context.Context) (Decision, error) { return k.AllowN(ctx, 0) }

// Tokens returns how many tokens are left.
func (k *KeyLimiter) Tokens(ctx context.Context) (int64, error) {
	d, err := k.Peek(ctx)
	return d.Remaining, err
}

// Acquire takes a permit now or not at all; see [Limiter.Acquire].
func (k *KeyLimiter) Acquire(ctx context.Context) (*Permit, error) {
	return k.limiter.Acquire(ctx, k.key)
}

// Reset makes the bucket as good as new.
func (k *KeyLimiter) Reset(ctx context.Context) error { return k.limiter.Reset(ctx, k.key) }

// Limit returns the limit.
func (k *KeyLimiter) Limit() Limit { return k.limiter.Limit() }

// Burst returns how many tokens can pass at once.
func (k *KeyLimiter) Burst() int64 { return k.limiter.Limit().Capacity() }

// SetLimit changes the limit of all keys; see [Limiter.SetLimit].
func (k *KeyLimiter) SetLimit(ctx context.Context, limit Limit) error {
	return k.limiter.SetLimit(ctx, limit)
}
