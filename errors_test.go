package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Each error is what its class says, and nothing else.
func TestErrorClasses(t *testing.T) {
	sentinels := []error{
		tidegate.ErrNever, tidegate.ErrStore, tidegate.ErrUnsupported, tidegate.ErrUnknownID, tidegate.ErrClosed,
		context.DeadlineExceeded, context.Canceled, io.EOF,
	}
	_, badLimit := tidegate.ParseLimit("10/fortnight")
	tests := []struct {
		err error
		is  []error
	}{
		{tidegate.ErrNever, []error{tidegate.ErrNever}},
		{tidegate.ErrUnsupported, []error{tidegate.ErrUnsupported}},
		{badLimit, nil},
		{&tidegate.DeadlineError{Need: 2 * time.Second, Have: time.Second}, []error{context.DeadlineExceeded}},
		{&tidegate.StoreError{Op: "take", Err: io.EOF}, []error{tidegate.ErrStore, io.EOF}},
		{&tidegate.StoreError{Op: "take", Err: tidegate.ErrClosed}, []error{tidegate.ErrStore, tidegate.ErrClosed}},
		// A store that does not answer in time has failed; the caller's own deadline is the context's error, not the store's.
		{&tidegate.StoreError{Op: "take", Err: context.DeadlineExceeded}, []error{tidegate.ErrStore, context.DeadlineExceeded}},
	}
	for _, test := range tests {
		for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err)} {
			for _, sentinel := range sentinels {
				if got := errors.Is(err, sentinel); got != slices.Contains(test.is, sentinel) {
					t.Errorf("errors.Is(%v, %v) is %v", err, sentinel, got)
				}
			}
		}
	}
}

// The typed errors are found behind others and carry what they know.
func TestErrorValues(t *testing.T) {
	_, err := tidegate.ParseLimit("10/s burst 0")
	le, ok := errors.AsType[*tidegate.LimitError](fmt.Errorf("rule a: %w", err))
	if !ok || le.Text != "10/s burst 0" || le.Problem != "the burst is 0" || le.Hint == "" {
		t.Errorf("%#v", le)
	}

	se, ok := errors.AsType[*tidegate.StoreError](fmt.Errorf("x: %w", &tidegate.StoreError{Op: "settle", Err: io.EOF}))
	if !ok || se.Op != "settle" || se.Err != io.EOF { //nolint:errorlint // the cause itself
		t.Errorf("%#v", se)
	}

	de, ok := errors.AsType[*tidegate.DeadlineError](fmt.Errorf("x: %w", &tidegate.DeadlineError{Need: time.Minute, Have: time.Second}))
	if !ok || de.Need != time.Minute || de.Have != time.Second {
		t.Errorf("%#v", de)
	}
}

// The texts say what happened to whom; those of the package begin with its name.
func TestErrorTexts(t *testing.T) {
	for err, want := range map[error]string{
		&tidegate.StoreError{Op: "take", Err: io.EOF}:                  "tidegate: store failure in take: EOF",
		&tidegate.DeadlineError{Need: time.Minute, Have: time.Second}:  "tidegate: would exceed the deadline: a wait of 1m0s where 1s is left",
		&tidegate.LimitError{Problem: "no period", Hint: "as in 10/s"}: "no period: as in 10/s",
		&tidegate.LimitError{Text: "10", Problem: "no period"}:         `limit "10": no period`,
		&tidegate.LimitError{Text: "1\n", Problem: "p", Hint: `"h"`}:   `limit "1\n": p: "h"`,
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
