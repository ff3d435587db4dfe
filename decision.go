package tidegate

import (
	"fmt"
	"time"
)

// Source says where a decision was made.
type Source uint8

// The sources of a decision.
const (
	// SourceStore: the store decided.
	SourceStore Source = iota
	// SourceLease: a lease that this process had taken ahead decided.
	SourceLease
	// SourceDeniedCache: the store had said that no such take can pass yet.
	SourceDeniedCache
	// SourceFallback: the store failed, and the rule's policy decided.
	SourceFallback
	// SourceUnlimited: the limit is unlimited, or no rule matched.
	SourceUnlimited
	// SourceShadow: every rule that matched is in shadow.
	SourceShadow
)

var sourceNames = [...]string{
	SourceStore:       "store",
	SourceLease:       "lease",
	SourceDeniedCache: "denied-cache",
	SourceFallback:    "fallback",
	SourceUnlimited:   "unlimited",
	SourceShadow:      "shadow",
}

// String returns the name that the wire, the metrics and the page use.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// A Decision is the answer to a take. "Denied" is a decision; an error means that there is none.
//
// With a limit of 10/s burst 20, the first take of a key answers
// {Allowed: true, Limit: 20, Remaining: 19, ResetAfter: 100ms}, and the twenty-first at the same moment
// {Allowed: false, Limit: 20, Remaining: 0, RetryAfter: 100ms, ResetAfter: 2s}.
type Decision struct {
	// Allowed says whether the take passes. For a peek (cost 0): whether a cost of 1 would pass.
	Allowed bool
	// Source says where the decision was made.
	Source Source
	// Limit is what Remaining counts down from: the burst of a token bucket, one more than the queue of a leaky bucket,
	// the N of a window or of permits. [NoLimit] where nothing limits.
	Limit int64
	// Remaining is the largest cost that would pass now, after this take. Never negative. [NoLimit] where nothing limits.
	Remaining int64
	// RetryAfter is how long after the decision the same cost can pass, if nobody else takes; exact to the tick of the
	// limit and never early. 0 where the take is allowed; [Never] where its cost is above the capacity.
	// For permits it is when the first to expire does, unless it is renewed or released before.
	RetryAfter time.Duration
	// ResetAfter is how long after the decision the bucket is as good as new, if nobody takes. 0 for one that is.
	ResetAfter time.Duration
	// Delay is how long an allowed take must wait before it starts: its place in a leaky bucket's queue, or in a reservation.
	Delay time.Duration
	// Rule names the rule that decided.
	Rule string
}

// Unavailable reports whether the take was refused for want of a store: the rule's policy is [FailDeny]. Over HTTP that is
// a 503 with Retry-After, where a limit that is reached is a 429. Its Limit is 0.
func (d *Decision) Unavailable() bool {
	return !d.Allowed && d.Source == SourceFallback && d.Limit == 0 && d.RetryAfter != Never
}

// Combine makes one decision of those that a take gave for its charges, which it must be given in their order.
//
// It is allowed when every charge that is not in shadow is. When refused, it describes the refusing charge with the
// longest wait; when allowed, the one with the smallest share left, and its Delay is the longest of all.
// A charge without a limit is described only when there is no other, and one in shadow never: when there are no others,
// the decision is one without a limit, of no rule, whose source says why.
func Combine(charges []Charge, decisions []Decision) Decision {
	best := -1
	allowed := true
	var delay time.Duration
	shadows := 0
	for i := range decisions {
		d := &decisions[i]
		if charges[i].Shadow {
			shadows++
			continue
		}
		if d.Allowed {
			delay = max(delay, d.Delay)
		}
		switch {
		case d.Allowed && !allowed:
		case !d.Allowed && allowed:
			allowed, best = false, i
		case best < 0:
			best = i
		case !allowed:
			if d.RetryAfter > decisions[best].RetryAfter {
				best = i
			}
		case lessLeft(d, &decisions[best]):
			best = i
		}
	}
	if best < 0 {
		d := Decision{Allowed: true, Source: SourceUnlimited, Limit: NoLimit, Remaining: NoLimit}
		if shadows > 0 {
			d.Source = SourceShadow
		}
		return d
	}
	d := decisions[best]
	if allowed {
		d.Delay = delay
	}
	return d
}

// lessLeft reports whether a has a smaller share of its limit left than b.
func lessLeft(a, b *Decision) bool {
	switch {
	case a.Limit == NoLimit:
		return false
	case b.Limit == NoLimit:
		return true
	}
	return float64(a.Remaining)*float64(b.Limit) < float64(b.Remaining)*float64(a.Limit)
}
