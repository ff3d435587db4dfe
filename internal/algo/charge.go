package algo

import (
	"errors"
	"fmt"

	"github.com/tidegate-go/tidegate"
)

// MaxID is the longest [tidegate.Charge.ID] in bytes.
const MaxID = 100

// ErrNegativeCost says that a reservation cannot be settled for less than nothing.
var ErrNegativeCost = errors.New("tidegate: a reservation cannot have cost less than 0")

// CheckCharge returns what is wrong with a charge that every store refuses, whatever the state of its bucket.
func CheckCharge(c *tidegate.Charge) error {
	switch {
	case c.Limit == nil:
		return errors.New("tidegate: a charge without a limit")
	case c.Version < 0 || c.Version > top:
		return fmt.Errorf("tidegate: a limit's version of %d: it is a time in microseconds since the Unix epoch", c.Version)
	case len(c.ID) > MaxID:
		return fmt.Errorf("tidegate: an ID of %d bytes: at most %d", len(c.ID), MaxID)
	case c.Limit.Algorithm == tidegate.Concurrency && c.Cost < 0:
		return fmt.Errorf("tidegate: permits are given back by Release: %w", tidegate.ErrUnsupported)
	case c.Limit.Algorithm == tidegate.Concurrency && c.Cost > 0 && c.ID == "":
		return fmt.Errorf("tidegate: permits are taken by Acquire: %w", tidegate.ErrUnsupported)
	case c.MaxWait > 0 && (c.Limit.Algorithm == tidegate.Concurrency || c.Limit.Algorithm == tidegate.SlidingLog),
		c.ID != "" && c.Limit.Algorithm == tidegate.SlidingLog:
		return fmt.Errorf("tidegate: %v has no reservations: %w", c.Limit.Algorithm, tidegate.ErrUnsupported)
	}
	return nil
}

// Named returns a charge that names the same bucket and asks nothing of it.
func Named(c *tidegate.Charge) tidegate.Charge {
	return tidegate.Charge{Rule: c.Rule, Key: c.Key, Limit: c.Limit, Version: c.Version}
}
