package downstream

import (
	"errors"
	"fmt"
	"time"
)

// Config says when a [Breaker] trips, and how it comes back. The zero Config, like a nil one, is the documented default.
type Config struct {
	// FailureRatio is the part of calls that must fail for it to trip, above 0 and at most 1.
	// Default: failures do not trip it; 0.5 if nothing else does either.
	FailureRatio float64
	// SlowRatio is the part of calls that must be slow for it to trip, above 0 and at most 1. It needs SlowAfter.
	// Default: slow calls do not trip it.
	SlowRatio float64
	// SlowAfter is how long a call may take; one that takes longer is slow. Default: none is.
	SlowAfter time.Duration
	// RefusalRatio is the part of takes that must be refused for it to trip, above 0 and at most 1; see [Breaker.Take].
	// Default: refusals do not trip it.
	RefusalRatio float64
	// Window is how far back calls and takes count, told in tenths. At least 10 ms. Default: 10 s.
	Window time.Duration
	// MinimumCalls is how many calls, or takes for RefusalRatio, must lie within the window for a ratio to mean anything.
	// Default: 20.
	MinimumCalls int
	// OpenTime is how long it stays open before calls are tried. Default: 5 s.
	OpenTime time.Duration
	// HalfOpenCalls is how many calls are tried while it is half-open. All must go well; one that does not opens it again.
	// Where some are not told of within OpenTime, as many are tried anew. Default: 5.
	HalfOpenCalls int
	// Ramp is how long it takes from the last trial to the whole traffic. Default: 30 s. Negative: all comes back at once.
	Ramp time.Duration
	// Changed is called on each change of state, in their order. It must be quick and not call the Breaker. Default: nobody is told.
	Changed func(Change)
	// Now is the clock, for tests and replay. Default: the monotonic clock of the process.
	Now func() time.Time
}

const (
	defaultRatio         = 0.5
	defaultWindow        = 10 * time.Second
	defaultMinimumCalls  = 20
	defaultOpenTime      = 5 * time.Second
	defaultHalfOpenCalls = 5
	defaultRamp          = 30 * time.Second
	leastWindow          = 10 * time.Millisecond
)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, r := range []struct {
		name  string
		ratio float64
	}{{"FailureRatio", c.FailureRatio}, {"SlowRatio", c.SlowRatio}, {"RefusalRatio", c.RefusalRatio}} {
		if !(r.ratio >= 0 && r.ratio <= 1) {
			errs = append(errs, fmt.Errorf("downstream: a %s of %v: above 0 and at most 1, such as 0.5, or 0 if that is not to trip the breaker", r.name, r.ratio))
		}
	}
	switch {
	case c.SlowAfter < 0:
		errs = append(errs, fmt.Errorf("downstream: SlowAfter %v is negative: say how long a call may take, such as 1s", c.SlowAfter))
	case c.SlowRatio > 0 && c.SlowAfter == 0:
		errs = append(errs, errors.New("downstream: a SlowRatio without SlowAfter: say how long a call may take, such as 1s"))
	case c.SlowRatio == 0 && c.SlowAfter > 0:
		errs = append(errs, errors.New("downstream: SlowAfter without a SlowRatio: say how many slow calls trip the breaker, such as 0.8"))
	}
	if c.Window < 0 || c.Window > 0 && c.Window < leastWindow {
		errs = append(errs, fmt.Errorf("downstream: a window of %v: at least %v, or 0 for the default of %v", c.Window, leastWindow, defaultWindow))
	}
	if c.MinimumCalls < 0 {
		errs = append(errs, fmt.Errorf("downstream: %d minimum calls: at least 1, or 0 for the default of %d", c.MinimumCalls, defaultMinimumCalls))
	}
	if c.OpenTime < 0 {
		errs = append(errs, fmt.Errorf("downstream: an open time of %v: above 0, or 0 for the default of %v", c.OpenTime, defaultOpenTime))
	}
	if c.HalfOpenCalls < 0 {
		errs = append(errs, fmt.Errorf("downstream: %d half-open calls: at least 1, or 0 for the default of %d", c.HalfOpenCalls, defaultHalfOpenCalls))
	}
	if c.FailureRatio == 0 && c.SlowRatio == 0 && c.RefusalRatio == 0 {
		c.FailureRatio = defaultRatio
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.MinimumCalls == 0 {
		c.MinimumCalls = defaultMinimumCalls
	}
	if c.OpenTime == 0 {
		c.OpenTime = defaultOpenTime
	}
	if c.HalfOpenCalls == 0 {
		c.HalfOpenCalls = defaultHalfOpenCalls
	}
	if c.Ramp == 0 {
		c.Ramp = defaultRamp
	}
	return c, errors.Join(errs...)
}
