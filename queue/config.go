package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Waiter says when it is a job's turn. A [tidegate.Limiter] does.
type Waiter interface {
	WaitN(ctx context.Context, key string, n int64) error
}

var _ Waiter = (*tidegate.Limiter)(nil)

// Policy says what happens to a job that finds the queue full.
type Policy uint8

// The policies.
const (
	// RefuseNewest: Put returns [ErrFull]. What waits keeps its place.
	RefuseNewest Policy = iota
	// DropOldest: the one that has waited longest makes room, and is told to Dropped. For jobs that go stale.
	DropOldest
)

// String returns the policy's name.
func (p Policy) String() string {
	switch p {
	case RefuseNewest:
		return "refuse-newest"
	case DropOldest:
		return "drop-oldest"
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// What becomes of jobs that do not run, besides the error of their own context.
var (
	// ErrFull says that the queue is full. Nothing waits for room: ask again later, or not at all.
	ErrFull = errors.New("queue: full")
	// ErrClosed says that the queue is shutting down.
	ErrClosed = errors.New("queue: shut down")
	// ErrDropped says that a newer job took the place.
	ErrDropped = errors.New("queue: dropped for a newer job")
	// ErrTooOld says that the job waited for longer than MaxAge.
	ErrTooOld = errors.New("queue: waited too long")
)

// Config says how a [Queue] works. The zero Config, like a nil one, is the documented default.
type Config[T any] struct {
	// Key is the limiter's key that jobs are charged to, one token each. Default: "".
	Key string
	// Size is how many jobs may wait; those that run are not among them. Default: 100.
	Size int
	// Full says what happens to a job that finds it full. Default: RefuseNewest.
	Full Policy
	// Workers is how many jobs may run at once. A rate of r a second needs r times what a job takes, in seconds; with fewer, jobs
	// start when one ends. Default: 16.
	Workers int
	// MaxAge is how long a job may wait; one whose turn comes later is dropped. Default: for ever.
	MaxAge time.Duration
	// Dropped is told of each job that was accepted and will not run, and why: [ErrDropped], [ErrTooOld], or the error of the
	// job's context. Several calls may run at once. It must be set for DropOldest and for MaxAge.
	// Default: a job whose context ends is left out unsaid, since its caller knows.
	Dropped func(job T, why error)
	// Failed is told when the limiter cannot say when the next turn is, since its store failed or its limit lets nothing pass.
	// Jobs wait meanwhile, and it is asked again, after 100 ms first, later every 5 s. Default: nobody is told.
	Failed func(error)
}

const (
	defaultSize    = 100
	defaultWorkers = 16
)

func (c Config[T]) withDefaults() (Config[T], error) {
	var errs []error
	if c.Size < 0 {
		errs = append(errs, fmt.Errorf("queue: a size of %d: at least 1, or 0 for the default of %d", c.Size, defaultSize))
	}
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("queue: %d workers: at least 1, or 0 for the default of %d", c.Workers, defaultWorkers))
	}
	if c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("queue: MaxAge %v is negative: leave it 0 for jobs that may wait for ever", c.MaxAge))
	}
	if c.Full > DropOldest {
		errs = append(errs, fmt.Errorf("queue: no policy is %v: RefuseNewest or DropOldest", c.Full))
	}
	if c.Dropped == nil && (c.Full == DropOldest || c.MaxAge > 0) {
		errs = append(errs, errors.New("queue: jobs may be dropped, and nobody would be told: set Dropped"))
	}
	if c.Size == 0 {
		c.Size = defaultSize
	}
	if c.Workers == 0 {
		c.Workers = defaultWorkers
	}
	if c.Dropped == nil {
		c.Dropped = func(T, error) {}
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	return c, errors.Join(errs...)
}
