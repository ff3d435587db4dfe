package resilience

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/due"
)

// ErrorKind says how a call of the shared store failed.
type ErrorKind string

// The kinds of failures. NoError is an answer, be it a refusal.
const (
	NoError         ErrorKind = ""
	KindTimeout     ErrorKind = "timeout"
	KindConnection  ErrorKind = "connection"
	KindLoading     ErrorKind = "loading"
	KindReadOnly    ErrorKind = "readonly"
	KindMemory      ErrorKind = "memory"
	KindBusy        ErrorKind = "busy"
	KindAuth        ErrorKind = "auth"
	KindClusterDown ErrorKind = "cluster-down"
	KindWrongType   ErrorKind = "wrong-type"
	KindCaller      ErrorKind = "caller" // the caller left, or its own deadline passed
	KindOther       ErrorKind = "other"
)

// words are how servers that speak RESP begin what they answer.
var words = []struct {
	word string
	kind ErrorKind
}{
	{"WRONGTYPE", KindWrongType},
	{"LOADING", KindLoading},
	{"READONLY", KindReadOnly},
	{"MASTERDOWN", KindReadOnly},
	{"NOREPLICAS", KindReadOnly},
	{"OOM", KindMemory},
	{"MISCONF", KindMemory},
	{"BUSY", KindBusy},
	{"WRONGPASS", KindAuth},
	{"NOAUTH", KindAuth},
	{"NOPERM", KindAuth},
	{"unauthenticated", KindAuth}, // what Redis calls arguments of whom it does not let in, if there are many
	{"CLUSTERDOWN", KindClusterDown},
	{"TRYAGAIN", KindClusterDown},
	{"MOVED ", KindClusterDown}, // for longer than the client follows
	{"ASK ", KindClusterDown},
	{"max number of clients", KindConnection},
}

// kindOf tells the kinds of failures apart, for metrics and logs.
func kindOf(err error) ErrorKind {
	var timeout net.Error
	switch {
	case err == nil:
		return NoError
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return KindTimeout
	}
	text := err.Error()
	for _, w := range words {
		if strings.Contains(text, w.word) {
			return w.kind
		}
	}
	var op *net.OpError
	if errors.As(err, &op) || disconnected(err) {
		return KindConnection
	}
	return KindOther
}

func disconnected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// mayHaveRun reports whether a call that failed so may have charged.
func mayHaveRun(err error) bool {
	switch kindOf(err) {
	case KindTimeout, KindOther:
		return true
	case KindConnection:
		return !errors.Is(err, syscall.ECONNREFUSED)
	case NoError, KindLoading, KindReadOnly, KindMemory, KindBusy, KindAuth, KindClusterDown, KindWrongType, KindCaller:
	}
	return false
}

// verdict is what a call says about the store.
type verdict uint8

const (
	answered verdict = iota // it decided, or knows no such id
	failed                  // it could not
	about                   // something is wrong with the call or the key, which says nothing about the store
	left                    // its caller has gone
)

// judge says what an error of a call says about the store. Own tells whether the call's deadline was ours and not the caller's.
func judge(caller context.Context, own bool, err error) verdict {
	switch {
	case err == nil, errors.Is(err, tidegate.ErrUnknownID):
		return answered
	case caller.Err() != nil:
		return left
	case errors.Is(err, tidegate.ErrClosed):
		return about
	case errors.Is(err, tidegate.ErrStore):
		return failed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if own {
			return failed
		}
		return left
	}
	return about
}

// bound returns the context of a call, what has to be released when the call has returned, nil if nothing has, and whether the
// deadline is the store's and not the caller's.
func (s *Store) bound(ctx context.Context) (bounded context.Context, ours *due.Context, own bool) {
	if s.steps != nil { // no call takes any time
		return ctx, nil, true
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= s.cfg.Timeout {
		return ctx, nil, false
	}
	ours = s.deadlines.Bound(ctx)
	return ours, ours, true
}

// call makes a call of the shared store that begun when the breaker's word was as given, and tells the breaker how it went.
func (s *Store) call(ctx context.Context, begun uint64, op string, f func(context.Context) error) (verdict, error) {
	bounded, ours, own := s.bound(ctx)
	start := s.now()
	err := f(bounded)
	ours.Release()
	v := judge(ctx, own, err)
	s.observe(op, start, v, err)
	s.tell(begun, v, err)
	return v, err
}

func (s *Store) observe(op string, start int64, v verdict, err error) {
	if s.cfg.Hooks.Call == nil {
		return
	}
	kind := NoError
	switch v {
	case failed:
		kind = kindOf(err)
	case left:
		kind = KindCaller
	case answered, about:
	}
	s.cfg.Hooks.Call(op, time.Duration(s.now()-start), kind)
}

// tell tells the breaker how a call went.
func (s *Store) tell(begun uint64, v verdict, err error) {
	switch v {
	case answered:
		s.breaker.succeeded(begun)
	case failed:
		if kindOf(err) == KindWrongType { // says nothing about other keys
			return
		}
		if s.breaker.failed(begun) {
			s.opened(err)
		}
	case about, left:
	}
}
