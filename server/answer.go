package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/guard"
	"github.com/tidegate-go/tidegate/rules"
)

// An endpoint answers a request with a reply or an error, and leaves the writing to its caller. It is given the writer only
// for [http.MaxBytesReader].
type endpoint func(w http.ResponseWriter, r *http.Request) (reply, error)

// reply is what a request is answered.
type reply struct {
	status int
	// retryAfter is the Retry-After header in seconds; 0 for none.
	retryAfter int64
	body       []byte
}

// done is the reply to what has no decision to tell, in one member: {"settled":true}.
func done(what string) reply {
	return reply{status: http.StatusOK, body: []byte(`{"` + what + `":true}`)}
}

// told is the reply of a value.
func told(v any) (reply, error) {
	b, err := json.Marshal(v)
	return reply{status: http.StatusOK, body: b}, err
}

// decided is the reply that tells a decision, and the id of what it made the store hold, if it did.
func decided(d tidegate.Decision, id string) (reply, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return reply{}, err
	}
	if id != "" { // base64url needs no escaping
		b = append(append(append(b[:len(b)-1], `,"id":"`...), id...), `"}`...)
	}
	if d.Allowed {
		return reply{status: http.StatusOK, body: b}, nil
	}
	status := http.StatusTooManyRequests
	if d.Unavailable() {
		status = http.StatusServiceUnavailable // no limit is reached
	}
	return reply{status: status, retryAfter: retryAfter(d.RetryAfter), body: b}, nil
}

// retryAfter is d in whole seconds, rounded up so that one who waits them passes, and at least 1, as 0 would be an
// invitation to try at once; 0, for no header, where waiting is in vain. Clients keep it in 32 bits.
func retryAfter(d time.Duration) int64 {
	if d == tidegate.Never {
		return 0
	}
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return min(max(seconds, 1), 1<<31-1)
}

// apiError is an error that says how the request is answered.
type apiError struct {
	status     int
	message    string
	retryAfter int64
	challenge  bool      // whether the answer asks for the token, as a 401 must
	mistakes   []mistake // of a file of rules
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotFound, message: fmt.Sprintf(format, args...)}
}

func unavailable(message string) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, message: message, retryAfter: 1}
}

// failure turns an error of a store or a limiter into one that says how the request is answered.
func failure(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*rules.UnknownRuleError](err); ok { // it was there when the request was read
		return notFound("there is no rule %q", e.Rule)
	}
	if e, ok := errors.AsType[*rules.KeyError](err); ok {
		return badRequest("%v", e)
	}
	if e, ok := errors.AsType[*rules.PermitsError](err); ok {
		if e.Permits {
			return badRequest("rule %q is one of permits, which are held until they are released: take one with /v1/acquire", e.Rule)
		}
		return badRequest("rule %q is not one of permits: charge it with /v1/take", e.Rule)
	}
	if e, ok := errors.AsType[*guard.UnknownBreakerError](err); ok {
		return notFound("%s", strings.TrimPrefix(e.Error(), "guard: "))
	}
	switch {
	case errors.Is(err, tidegate.ErrUnknownID):
		return notFound(`nothing is held under this "id": it was settled or released before, or it has lapsed`)
	case errors.Is(err, tidegate.ErrUnsupported):
		return badRequest("the rule's limit cannot do this: %v", err)
	default:
		return unavailable("no decision could be made: " + cause(err).Error())
	}
}

// cause is what made the store fail, without the words around it.
func cause(err error) error {
	if e, ok := errors.AsType[*tidegate.StoreError](err); ok {
		return e.Err
	}
	return err
}

// answer writes what the endpoint says.
func answer(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rep, err := e(w, r)
		if err != nil {
			writeError(w, failure(err))
			return
		}
		rep.write(w)
	})
}

func writeError(w http.ResponseWriter, e *apiError) {
	b, err := json.Marshal(struct {
		Error  string    `json:"error"`
		Errors []mistake `json:"errors,omitempty"`
	}{e.message, e.mistakes})
	if err != nil { // a string always marshals
		b = []byte(`{"error":""}`)
	}
	if e.challenge {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidegate"`)
	}
	reply{status: e.status, retryAfter: e.retryAfter, body: b}.write(w)
}

func (rep reply) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if rep.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(rep.retryAfter, 10))
	}
	h.Set("Content-Length", strconv.Itoa(len(rep.body)+1))
	w.WriteHeader(rep.status)
	_, _ = w.Write(append(rep.body, '\n')) // a client that is gone needs no answer
}
