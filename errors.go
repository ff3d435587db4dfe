package tidegate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sentinels, for [errors.Is].
var (
	// ErrNever says that a take can never pass: its cost is above the limit's capacity, or the limit is none.
	ErrNever = errors.New("tidegate: can never pass")
	// ErrStore says that the store could not decide. Every [*StoreError] is one.
	ErrStore = errors.New("tidegate: store failure")
	// ErrUnsupported says that the limit's algorithm has no such operation, like a reservation on a sliding log.
	ErrUnsupported = errors.New("tidegate: not supported by the algorithm")
	// ErrUnknownID says that a reservation was settled or cancelled before, or a permit released, or that it lapsed,
	// or that the store lost it. What it charged stays charged.
	ErrUnknownID = errors.New("tidegate: unknown, settled or lapsed reservation or permit")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("tidegate: store is closed")
)

// A LimitError says why a limit is not valid and what to write instead.
type LimitError struct {
	Text    string // the limit as it was written; empty for one that was built in code
	Problem string // what is wrong
	Hint    string // what to write instead
}

// Error returns one line: the limit, what is wrong with it, and a right one.
func (e *LimitError) Error() string {
	s := e.Problem
	if e.Text != "" {
		s = fmt.Sprintf("limit %q: %s", e.Text, e.Problem)
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func limitErrorf(format string, args ...any) *LimitError {
	return &LimitError{Problem: fmt.Sprintf(format, args...)}
}

func (e *LimitError) hint(h string) *LimitError {
	e.Hint = h
	return e
}

// A StoreError says that no decision could be made, because the store failed: it could not be reached, answered with an
// error or too late, or was closed. It wraps the cause and is an [ErrStore].
type StoreError struct {
	Op  string // what was asked of the store: "take", "settle", …
	Err error  // the cause
}

// Error names the operation and the cause.
func (e *StoreError) Error() string {
	return "tidegate: store failure in " + e.Op + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Is reports that every StoreError is an [ErrStore].
func (e *StoreError) Is(target error) bool { return target == ErrStore }

// A DeadlineError says that the wait for a turn would be longer than the caller can or may wait, so that it did not wait
// and nothing was charged. It is a [context.DeadlineExceeded].
type DeadlineError struct {
	Need time.Duration // how long the wait would have been
	Have time.Duration // how long it may be: what the context leaves, or MaxWait
}

// Error tells both times.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("tidegate: would exceed the deadline: a wait of %v where %v is left", e.Need, e.Have)
}

// Is reports that a DeadlineError is a [context.DeadlineExceeded].
func (e *DeadlineError) Is(target error) bool { return target == context.DeadlineExceeded }
