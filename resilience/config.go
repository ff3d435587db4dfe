package resilience

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Config says how a [Store] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Local decides while the shared store is away. It becomes the Store's, which closes it; nothing else is to use it.
	// Default: memstore.New(nil).
	Local tidegate.Store
	// Timeout bounds a call of the shared store, connecting included, where its context does not end before. A caller waits
	// for it once, when an outage begins. Give the shared store the same, since it may have work under way that no caller
	// waits for. Default: 50 ms.
	Timeout time.Duration
	// Failures is how many calls in a row must fail for the store to count as away. Default: 5.
	Failures int
	// Replicas is how many share the limits. It is used only until the store has told, and where it cannot: each takes that
	// part. Default: 1, of which a warning is logged if it comes to be used.
	Replicas int
	// ID names this replica, 1 to 100 bytes, and no other. Default: 130 random bits.
	ID string
	// MaxKeys bounds the keys of which is remembered what remained and what is owed. Beyond it, of a few sampled ones the one
	// goes that matters least; a debt that goes is counted in [Status].Forgotten. Default: 65,536.
	MaxKeys int
	// Logger is told of each change of state, never of a request. Default: nobody is.
	Logger *slog.Logger
	// Hooks are told what happens. Default: none.
	Hooks Hooks
}

// Hooks are called as things happen, if they are set. They must be quick, and call nothing of the Store but Status; several
// may run at once.
type Hooks struct {
	// State is called on each change of state.
	State func(StateChange)
	// Call is called after each call of the shared store, the heartbeat ("beat") included, with how long it took and what
	// kind of failure it was. Takes that a lease or a cache answered are none.
	Call func(op string, took time.Duration, kind ErrorKind)
	// Fallback is called for each charge that was decided without the store.
	Fallback func(rule string, allowed bool)
	// Share is called after each heartbeat, with the part of each rule's limit that this replica would keep to.
	Share func(rule string, share float64)
	// Repaid is called when a key's debt is settled, with what was charged and what found no room.
	Repaid func(rule string, charged, left int64)
}

// State says who decides.
type State uint8

// The states.
const (
	// Shared: the shared store does.
	Shared State = iota
	// Fallback: the shared store is away, and the rules' policies do.
	Fallback
	// Returning: the shared store does, but this replica also keeps to its share, since others may not know yet that it is back.
	Returning
)

// String returns the name that logs and metrics use.
func (s State) String() string {
	switch s {
	case Shared:
		return "store"
	case Fallback:
		return "fallback"
	case Returning:
		return "returning"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// StateChange is a change of state.
type StateChange struct {
	From, To State
	// Lasted is how long the former state did.
	Lasted time.Duration
	// Err is why the store counts as away.
	Err error
	// Lost says that the store came back without its data.
	Lost bool
}

// Status tells how things are.
type Status struct {
	State State
	// Since is when the state began.
	Since time.Time
	// Err is why the store counts as away; nil if it does not.
	Err error
	// Replicas is how many there were when the store last told; 0 if it never has.
	Replicas int
	// Debts is how many keys owe the store something.
	Debts int
	// Forgotten is how many debts were forgotten for lack of room.
	Forgotten int64
}

const (
	defaultTimeout  = 50 * time.Millisecond
	defaultFailures = 5
	defaultMaxKeys  = 1 << 16
)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("resilience: a timeout of %v: leave it 0 for the default of %v", c.Timeout, defaultTimeout))
	}
	if c.Failures < 0 || c.Failures > maxFailures {
		errs = append(errs, fmt.Errorf("resilience: %d failures: 1 to %d, or 0 for the default of %d", c.Failures, maxFailures, defaultFailures))
	}
	if c.Replicas < 0 {
		errs = append(errs, fmt.Errorf("resilience: %d replicas: at least 1, or 0 if the number is not known", c.Replicas))
	}
	if c.MaxKeys < 0 {
		errs = append(errs, fmt.Errorf("resilience: %d keys: leave it 0 for the default of %d", c.MaxKeys, defaultMaxKeys))
	}
	if len(c.ID) > algo.MaxID {
		errs = append(errs, fmt.Errorf("resilience: an ID of %d bytes: at most %d", len(c.ID), algo.MaxID))
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Failures == 0 {
		c.Failures = defaultFailures
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = defaultMaxKeys
	}
	if c.ID == "" {
		c.ID = rand.Text()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
