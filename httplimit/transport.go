package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// TransportConfig says how a [Transport] works. The zero TransportConfig, like a nil one, is the documented default.
type TransportConfig struct {
	// Base sends the requests. Default: [http.DefaultTransport].
	Base http.RoundTripper
	// Limiter is a limit of your own to keep, such as the one that the other side's documentation states. Requests wait for
	// their turn in the order in which they came. Not one of permits, and one of a sliding log only with Refuse, since it
	// has no reservations. Default: none; only what the other side says is obeyed.
	Limiter *tidegate.Limiter
	// Key returns the key that a request is charged to in Limiter. Default: its host and, unless it is the scheme's own, port.
	Key func(r *http.Request) string
	// MaxWait is the longest that a request waits before it is sent, for the limit and for the other side. Where it would have
	// to wait longer, or longer than its context allows, it fails at once with a [*LimitedError]. Default: 1 min.
	MaxWait time.Duration
	// Refuse lets requests fail at once instead of waiting. Default: they wait.
	Refuse bool
	// MaxPause is the longest pause that the other side is believed; after a longer one it is asked again. Default: 1 h.
	MaxPause time.Duration
	// MaxHosts bounds of how many hosts a pause is remembered; beyond it, the one goes that ends first. Default: 1024.
	MaxHosts int
	// FailOpen sends requests where Limiter cannot decide, since its store failed. Default: they fail with its error.
	FailOpen bool
}

// A Transport keeps to a limit on the way out, and to what the other side says: after an answer 429 or 503 with Retry-After,
// or with a RateLimit of which nothing is left, no request goes to that host until the time is over. It never sends a
// request twice, and returns every answer as it came. It is safe for concurrent use; create it with [NewTransport].
//
// A pause is for the whole host, as the fields do not say what they are about. When it ends, all who waited go; a Limiter
// spreads them.
type Transport struct {
	cfg    TransportConfig
	pauses *pauses
}

// NewTransport returns a transport. A nil config is the default. The error joins all that is wrong with the config.
func NewTransport(cfg *TransportConfig) (*Transport, error) {
	t := &Transport{}
	if cfg != nil {
		t.cfg = *cfg
	}
	c := &t.cfg
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httplimit: "+format, args...)) }
	if c.MaxWait < 0 || c.MaxPause < 0 || c.MaxHosts < 0 {
		fault("MaxWait %v, MaxPause %v and MaxHosts %d must not be negative: leave them 0 for the default", c.MaxWait, c.MaxPause, c.MaxHosts)
	}
	if c.Refuse && c.MaxWait > 0 {
		fault("Refuse and MaxWait %v are both set: either requests fail at once, or they wait", c.MaxWait)
	}
	if c.Limiter != nil {
		switch l := c.Limiter.Limit(); {
		case l.Algorithm == tidegate.Concurrency:
			fault("Limiter %q bounds what is in flight: a transport does not know when a response is complete", l)
		case l.Algorithm == tidegate.SlidingLog && !c.Refuse:
			fault("Limiter %q has no reservations to wait for: set Refuse, or take a sliding window", l)
		}
	}
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	if c.Key == nil {
		c.Key = hostOf
	}
	if c.MaxWait == 0 && !c.Refuse {
		c.MaxWait = time.Minute
	}
	if c.MaxPause == 0 {
		c.MaxPause = time.Hour
	}
	if c.MaxHosts == 0 {
		c.MaxHosts = 1024
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t.pauses = &pauses{max: c.MaxHosts, until: make(map[string]time.Time)}
	return t, nil
}

// A LimitedError says that a request was not sent. It wraps a [*tidegate.DeadlineError], or is [tidegate.ErrNever].
type LimitedError struct {
	// Host is where it would have gone.
	Host string
	// RetryAfter is how long after the error it could have been sent; [tidegate.Never] where its cost is above the limit.
	RetryAfter time.Duration
	// Asked says that the other side asked for the pause; otherwise it is Limiter that refuses.
	Asked bool
	cause error
}

// Error names the host, who refuses, and when to try again.
func (e *LimitedError) Error() string {
	why := "its limit is reached"
	if e.Asked {
		why = "it asked for a pause"
	}
	if e.RetryAfter == tidegate.Never {
		return fmt.Sprintf("httplimit: request to %s was not sent: it can never pass the limit", e.Host)
	}
	return fmt.Sprintf("httplimit: request to %s was not sent: %s: try again in %v", e.Host, why, e.RetryAfter)
}

// Unwrap returns the cause.
func (e *LimitedError) Unwrap() error { return e.cause }

// RoundTrip waits until the request may be sent, sends it, and returns the answer.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	host := hostOf(r)
	if err := t.wait(r, host); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as every RoundTripper must
		}
		return nil, err
	}
	resp, err := t.cfg.Base.RoundTrip(r)
	if err == nil {
		if d := min(pauseOf(resp, time.Now()), t.cfg.MaxPause); d > 0 {
			t.pauses.add(host, time.Now(), d)
		}
	}
	return resp, err
}

// wait returns when the request may be sent.
func (t *Transport) wait(r *http.Request, host string) error {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return err
	}
	end := time.Now().Add(t.cfg.MaxWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	if err := t.waitForPause(ctx, host, end); err != nil {
		return err
	}
	if t.cfg.Limiter == nil {
		return nil
	}
	turn, err := t.waitForTurn(ctx, t.cfg.Key(r), host, end)
	if err != nil {
		return err
	}
	if err := t.waitForPause(ctx, host, end); err != nil { // one may have been asked for meanwhile
		giveTurnBack(ctx, turn)
		return err
	}
	return nil
}

// waitForPause returns when no pause is on. Each sleep may find that the pause has been prolonged.
func (t *Transport) waitForPause(ctx context.Context, host string, end time.Time) error {
	for {
		now := time.Now()
		d := t.pauses.rest(host, now)
		if d <= 0 {
			return nil
		}
		if have := end.Sub(now); d > have {
			return &LimitedError{Host: host, RetryAfter: d, Asked: true, cause: &tidegate.DeadlineError{Need: d, Have: max(0, have)}}
		}
		if err := sleep(ctx, nil, d); err != nil {
			return err
		}
	}
}

// waitForTurn charges the limiter, and returns when the charge's time has come, with what gives it back; nil where nothing does.
func (t *Transport) waitForTurn(ctx context.Context, key, host string, end time.Time) (*tidegate.Reservation, error) {
	have := time.Until(end)
	if t.cfg.Refuse {
		have = 0
	}
	d, turn, err := t.charge(ctx, key, have)
	if err != nil {
		if t.cfg.FailOpen && ctx.Err() == nil {
			return nil, nil //nolint:nilnil // nothing was charged
		}
		return nil, err
	}
	cause := error(&tidegate.DeadlineError{Need: d.RetryAfter, Have: max(0, have)})
	if d.RetryAfter == tidegate.Never {
		cause = tidegate.ErrNever
	}
	if !d.Allowed {
		return nil, &LimitedError{Host: host, RetryAfter: d.RetryAfter, cause: cause}
	}
	if d.Delay <= have { // a leaky bucket has a queue of its own
		if err = sleep(ctx, nil, d.Delay); err == nil {
			return turn, nil
		}
	} else {
		err = &LimitedError{Host: host, RetryAfter: d.Delay, cause: &tidegate.DeadlineError{Need: d.Delay, Have: max(0, have)}}
	}
	giveTurnBack(ctx, turn)
	return nil, err
}

// giveTurnBack cancels the charge of a request that is not sent.
func giveTurnBack(ctx context.Context, turn *tidegate.Reservation) {
	if turn == nil {
		return
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	_ = turn.Cancel(back) // what cannot be given back stays charged
}

// charge takes a turn. It can be given back as long as its request may have to wait for a pause once its time has come.
func (t *Transport) charge(ctx context.Context, key string, have time.Duration) (tidegate.Decision, *tidegate.Reservation, error) {
	if t.cfg.Limiter.Limit().Algorithm == tidegate.SlidingLog {
		d, err := t.cfg.Limiter.Allow(ctx, key)
		return d, nil, err
	}
	r, err := t.cfg.Limiter.ReserveWithin(ctx, key, 1, have, max(0, have)+giveBack)
	if err != nil {
		return tidegate.Decision{}, nil, err
	}
	return r.Decision(), r, nil
}

// hostOf is where a request goes: in lower case, without the scheme's own port.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.URL.Host)
	switch r.URL.Scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}
