package redistest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Bounds on how long a machine under load may take; none is waited out when things go well.
const (
	startTime   = 30 * time.Second // a server, until it answers
	formTime    = 60 * time.Second // a sentinel set or a cluster, until its members agree
	exitTime    = 15 * time.Second // a process, from a signal until it has gone
	commandTime = 10 * time.Second // one command of Do
	pollEvery   = 10 * time.Millisecond
)

// permanentError is an error that waiting longer cannot mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// poll calls f until it returns nil, at most for d. It returns f's last error, and at once one that is a permanentError.
func poll(d time.Duration, f func() error) error {
	deadline := time.Now().Add(d)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if e, ok := errors.AsType[permanentError](err); ok {
			return e.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", d, err)
		}
		time.Sleep(pollEvery)
	}
}

// await is poll for a step without which the test cannot go on.
func await(tb testing.TB, what string, d time.Duration, f func() error) {
	tb.Helper()
	if err := poll(d, f); err != nil {
		tb.Fatalf("redistest: %s: %v", what, err)
	}
}
