package rules

import (
	"context"
	"errors"

	"github.com/tidegate-go/tidegate"
)

// A Held is what a reservation or a permit came to.
type Held struct {
	Decision tidegate.Decision
	// ID names what the store holds since, to settle, renew or release it by; empty where it holds nothing.
	ID string
}

// Reserve charges the cost to a bucket named by rule and key, for a start now or later, by the limit's default MaxWait at
// most; see [tidegate.Limiter.ReserveN]. The errors are those of [Engine.MatchKey] and of the limiter.
func (e *Engine) Reserve(ctx context.Context, rule string, key []string, cost int64) (Held, error) {
	return Held{}, errors.ErrUnsupported
}

// Settle sets the cost that a reservation turned out to have; see [tidegate.Reservation.Settle]. A cost of 0 cancels it.
func (e *Engine) Settle(ctx context.Context, rule string, key []string, id string, cost int64) error {
	return errors.ErrUnsupported
}

// Acquire takes a permit, which weighs cost; see [tidegate.Limiter.AcquireN]. It is a [*PermitsError] for other limits.
func (e *Engine) Acquire(ctx context.Context, rule string, key []string, cost int64) (Held, error) {
	return Held{}, errors.ErrUnsupported
}

// Renew holds a permit for its limit's TTL from now.
func (e *Engine) Renew(ctx context.Context, rule string, key []string, id string) error {
	return errors.ErrUnsupported
}

// Release gives a permit back.
func (e *Engine) Release(ctx context.Context, rule string, key []string, id string) error {
	return errors.ErrUnsupported
}

// Reset makes a bucket as good as new.
func (e *Engine) Reset(ctx context.Context, rule string, key []string) error {
	return errors.ErrUnsupported
}
