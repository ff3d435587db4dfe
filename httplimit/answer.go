package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tidegate-go/tidegate"
)

// ContentType is the media type of [Answer.Problem].
const ContentType = "application/problem+json"

// An Answer is how a request that does not pass is answered.
type Answer struct {
	// Status is 429 where a limit refused, or [Config.Status]; 503 where the rule refuses for want of a store, where no
	// decision could be made, or where the wait for a turn was broken off; 400 where an attribute is missing.
	Status int
	// RetryAfter is the Retry-After header in seconds; 0 where there is none, since waiting is in vain.
	RetryAfter int64
	// Decision is the one that refused; zero where none was made.
	Decision tidegate.Decision
	// Missing is the attribute of [Config.Require] that the request lacks.
	Missing string
	// Err is why no decision was made. It is not for the client.
	Err error
}

// problem is the body; the types are those of the draft of the RateLimit fields.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Policies []string `json:"violated-policies,omitempty"` //nolint:tagliatelle // the draft's name
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// Problem returns the answer's body: what happened, as RFC 9457 has it, with the rule that refused in violated-policies.
func (a *Answer) Problem() []byte {
	p := problem{Status: a.Status}
	switch {
	case a.Missing != "":
		p.Type, p.Title = "about:blank", http.StatusText(a.Status)
		p.Detail = "The request lacks " + a.Missing + ", by which it is limited."
	case a.Status == http.StatusServiceUnavailable:
		p.Type, p.Title = problemTypes+"temporary-reduced-capacity", "Temporarily not available"
		p.Detail = "The service cannot take the request now."
	default:
		p.Type, p.Title = problemTypes+"quota-exceeded", "Too many requests"
		p.Detail = "The limit is reached."
	}
	switch {
	case a.RetryAfter == 1:
		p.Detail += " Try again in a second."
	case a.RetryAfter > 0:
		p.Detail += " Try again in " + strconv.FormatInt(a.RetryAfter, 10) + " seconds."
	case a.Decision.RetryAfter == tidegate.Never:
		p.Detail = "A request like this one can never pass."
	}
	if rule := a.Decision.Rule; rule != "" {
		p.Policies = []string{rule}
	}
	b, err := json.Marshal(p)
	if err != nil { // strings and numbers always marshal
		return nil
	}
	return append(b, '\n')
}

// Write writes the status and the problem+json body.
func (a *Answer) Write(w http.ResponseWriter) {
	body := a.Problem()
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
