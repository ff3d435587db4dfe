package tidegate

import (
	"context"
	"strconv"
	"time"
)

// A Charge is what a take asks of one bucket. The zero values of its optional fields are the common case.
type Charge struct {
	// Rule names the limit. Rule and Key name the bucket.
	Rule string
	// Key names the bucket among those of the rule: any bytes, also none.
	// The parts of a key of several parts are joined so that no two keys become one.
	Key string
	// Limit is the limit of the bucket. Neither nil nor changed once it was given to a store, which may keep what it
	// worked out for the pointer; a changed limit is a new one with a newer version.
	Limit *Limit
	// Version is when the limit was changed at its source, in microseconds since the Unix epoch; 0 for one that is part
	// of the program. A bucket keeps the limit of the newest version that it saw: a take with an older one is decided
	// under the bucket's own limit, and one with a newer one brings its limit along, keeping the share that is in use.
	Version int64
	// Cost is how many tokens to charge: at least 1. 0 peeks and writes nothing. Negative refunds, never above capacity.
	Cost int64
	// Shadow decides and charges where there is room, but never refuses the take.
	Shadow bool
	// OnFailure says what decides when the store fails. Stores that do not fall back leave it alone.
	OnFailure FailurePolicy
	// MaxWait allows the take to be charged for a start up to so much later; the decision's Delay then says when.
	// With 0 a take starts now or is refused, but a leaky bucket's still waits as its queue says.
	// A window charges the next one at most. Sliding logs and permits refuse a MaxWait with [ErrUnsupported].
	MaxWait time.Duration
	// ID names the reservation or permit that the charge makes, so that it can be settled, renewed or released: at most
	// 100 bytes, hard to guess. Required for permits; [ErrUnsupported] for sliding logs. All charges of a take carry the same.
	ID string
	// Hold is how long after its start a reservation can still be settled. Where it is 0, one can be cancelled until
	// it starts. Permits are held for their limit's TTL instead.
	Hold time.Duration
}

// A Store holds the buckets. Its implementations pass the suite of package storetest, which says in code what this
// interface says in words. All methods are safe for concurrent use.
//
// An error means that there is no decision: it is a [*StoreError], or one of this package's sentinels, or the context's.
// A store that returns the context's error may or may not have charged.
type Store interface {
	// Take decides all charges at one moment of the store's clock and appends a decision for each to dst, in their order;
	// dst may be nil. Every charge is evaluated, whether another was refused or not. Charges of one bucket see each other.
	//
	// All or nothing: only when every charge that is not in shadow is allowed is any charged, and then each charge in
	// shadow that has room is charged too. A refused take writes nothing (but it may rebase a bucket whose time is ahead
	// of the clock, and it starts the climb of a cold bucket that warms up). The decision of a charge is its own bucket's
	// verdict; what remains is told as of after the take.
	Take(ctx context.Context, charges []Charge, dst []Decision) ([]Decision, error)

	// Settle sets the cost that the reservation id turned out to have: what it charged above that is refunded into the
	// window that was charged, what it charged below that is charged in excess, into debt if need be. Charges name the
	// buckets as they did when it was made; their costs are ignored. A cost of 0 cancels. It works once; then, and for a
	// reservation that was never made or has lapsed, it is [ErrUnknownID].
	Settle(ctx context.Context, id string, charges []Charge, cost int64) error

	// Renew holds the permit id for its limit's TTL from now. It is [ErrUnknownID] if any of its buckets has let go of it.
	Renew(ctx context.Context, id string, charges []Charge) error

	// Release gives the permit id back. It is [ErrUnknownID] if none of its buckets has it.
	Release(ctx context.Context, id string, charges []Charge) error

	// Reset makes the buckets of the charges as good as new.
	Reset(ctx context.Context, charges []Charge) error

	// Now returns the store's clock, by which it decides.
	Now(ctx context.Context) (time.Time, error)

	// Close stops what the store started and frees what it holds. Later calls are [ErrClosed].
	Close() error
}

// FailureAction is what a rule does when the store fails.
type FailureAction uint8

// The failure actions.
const (
	// FailLocal lets each replica keep to its share of the limit.
	FailLocal FailureAction = iota
	// FailAllow lets everything pass.
	FailAllow
	// FailDeny refuses everything.
	FailDeny
)

// FailurePolicy says what decides when the store fails. The zero value is the default: local, with a share that follows
// the demand.
type FailurePolicy struct {
	// Action is what the rule does.
	Action FailureAction
	// Share fixes the part of the limit that [FailLocal] keeps to, above 0 and at most 1. 0: it follows the demand.
	Share float64
}

// String writes the policy as rule files do.
func (p FailurePolicy) String() string {
	switch p.Action {
	case FailAllow:
		return "allow"
	case FailDeny:
		return "deny"
	case FailLocal:
	}
	if p.Share == 0 {
		return "local"
	}
	return "local " + strconv.FormatFloat(p.Share, 'g', -1, 64)
}
