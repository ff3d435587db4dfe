package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// maxText bounds the texts of a failure.
const maxText = 1 << 10

// kinds are the sentinels that have a kind of their own.
var kinds = []struct {
	kind storev1.Failure_Kind
	err  error
}{
	{storev1.Failure_KIND_UNSUPPORTED, tidegate.ErrUnsupported},
	{storev1.Failure_KIND_NEVER, tidegate.ErrNever},
	{storev1.Failure_KIND_UNKNOWN_ID, tidegate.ErrUnknownID},
}

// Failure returns the message for an error of a store; nil for none.
func Failure(err error) *storev1.Failure {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*tidegate.StoreError](err); ok {
		return &storev1.Failure{Kind: storev1.Failure_KIND_STORE, Message: text(e.Err.Error())}
	}
	if e, ok := errors.AsType[*tidegate.LimitError](err); ok {
		return &storev1.Failure{
			Kind: storev1.Failure_KIND_LIMIT, Message: text(e.Error()),
			Text: text(e.Text), Problem: text(e.Problem), Hint: text(e.Hint),
		}
	}
	f := &storev1.Failure{Message: text(err.Error())}
	// The call's context, whose end is news to nobody but the one whose own it is: to the client the store did not decide.
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f.Kind = storev1.Failure_KIND_STORE
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kind = k.kind
		}
	}
	return f
}

// text is what a message can carry of a text.
func text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// A kindError has the words of the server and the kind of a sentinel.
type kindError struct {
	message string
	kind    error
}

func (e *kindError) Error() string { return e.message }
func (e *kindError) Unwrap() error { return e.kind }

// ReadFailure returns the error of a message; nil for none. Op is what was asked.
func ReadFailure(op string, f *storev1.Failure) error {
	if f == nil {
		return nil
	}
	switch f.GetKind() {
	case storev1.Failure_KIND_INVALID:
		return errors.New(f.GetMessage())
	case storev1.Failure_KIND_LIMIT:
		return &tidegate.LimitError{Text: f.GetText(), Problem: f.GetProblem(), Hint: f.GetHint()}
	default:
	}
	for _, k := range kinds {
		if k.kind != f.GetKind() {
			continue
		}
		if f.GetMessage() == k.err.Error() {
			return k.err
		}
		return &kindError{f.GetMessage(), k.err}
	}
	// Also a kind that a newer server has: it decided nothing, which is all that is known.
	return &tidegate.StoreError{Op: op, Err: errors.New("the server's store: " + f.GetMessage())}
}
