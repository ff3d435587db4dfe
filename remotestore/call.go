package remotestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
)

// ready returns the error of a call that cannot be made.
func (s *Store) ready(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return &tidegate.StoreError{Op: op, Err: tidegate.ErrClosed}
	}
	return nil
}

// bound bounds a call and gives it the token. What the caller's context has for calls of its own is not sent: it may hold a
// token that is another server's.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(metadata.NewOutgoingContext(ctx, s.sent), s.cfg.Timeout)
}

// maxBytes bounds what one take, or one call about buckets, may take in a message; servers read 1 MiB.
const (
	maxBytes   = 900 << 10
	maxCharges = 4096
)

// fits returns an error for charges that are more than a server would read: it would count as one of the store.
func fits(charges []tidegate.Charge) error {
	size := 0
	for i := range charges {
		size += wire.Size(&charges[i])
	}
	if len(charges) > maxCharges || size > maxBytes {
		return fmt.Errorf("remotestore: %d charges of about %d bytes in one call: at most %d and %d; shorten the keys or ask for fewer at once",
			len(charges), size, maxCharges, maxBytes)
	}
	return nil
}

// failure is the error of a call that has no response: what the caller's context says if it has ended, else a store error.
func (s *Store) failure(caller context.Context, op string, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	// The caller's deadline reached the call, which notices it a moment before the context does.
	if deadline, ok := caller.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return &tidegate.StoreError{Op: op, Err: s.explain(err)}
}

// explain says in words what a status means here.
func (s *Store) explain(err error) error {
	if s.closed.Load() {
		return tidegate.ErrClosed // the connection was closed under the call
	}
	code := status.Code(err)
	if code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) {
		return &statusError{fmt.Sprintf("no answer within %v", s.cfg.Timeout), errors.Join(context.DeadlineExceeded, err)}
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return &statusError{"unauthenticated: the server does not let this client in: " + status.Convert(err).Message(), err}
	case codes.Unimplemented:
		return &statusError{"the server answers no calls of stores: it is another service, or an older one: " + status.Convert(err).Message(), err}
	default:
		return err
	}
}

// statusError has words for a status.
type statusError struct {
	message string
	status  error
}

func (e *statusError) Error() string { return e.message }
func (e *statusError) Unwrap() error { return e.status }
