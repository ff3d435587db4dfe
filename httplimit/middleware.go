package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/internal/afterwards"
)

// A Middleware keeps requests to the limits of a decider. It is safe for concurrent use; create it with [New].
type Middleware struct {
	cfg      Config
	clients  *clientip.Resolver
	decider  tidegate.Decider
	limiter  *tidegate.Limiter // the decider, where it is one
	holder   tidegate.Holder   // the decider, where it is one, as limiters are
	teller   tidegate.Teller   // the decider, where it is one, as limiters are
	queue    *queue            // nil where none waits
	names    *remembered[string]
	policies *remembered[policy]
	failing  atomic.Bool // whether the last decision failed
	returns  afterwards.Calls
}

// New returns a middleware over a decider: a [*tidegate.Limiter], or an engine of many rules. A nil config is the default.
// The error joins all that is wrong with the config.
//
// Over a limiter of permits a request holds one until its response is complete, and so it does over an engine whose rules limit what
// is in flight, beside what others of its rules charge. What needs that, a Count or a Queue asks for a [tidegate.Holder], which
// both are. A decider that is none just decides: permits are beyond it, and where its decision has a delay, a client that leaves
// meanwhile stays charged.
func New(decider tidegate.Decider, cfg *Config) (*Middleware, error) {
	m := &Middleware{
		decider:  decider,
		names:    remember(textproto.CanonicalMIMEHeaderKey),
		policies: remember(policy.String),
	}
	if cfg != nil {
		m.cfg = *cfg
	}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httplimit: "+format, args...)) }

	var ip clientip.Config
	if m.cfg.ClientIP != nil {
		ip = *m.cfg.ClientIP
	}
	if ip.Logger == nil {
		ip.Logger = m.cfg.Logger
	}
	var err error
	if m.clients, err = clientip.New(&ip); err != nil {
		errs = append(errs, err)
	}
	if decider == nil {
		fault("the decider is nil: give New a limiter, as tidegate.New returns it, or an engine of rules")
	}
	m.checkValues(fault)
	if decider != nil {
		m.connect(fault)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// checkValues looks at each field for itself, and sets defaults.
func (m *Middleware) checkValues(fault func(format string, args ...any)) {
	c := &m.cfg
	switch {
	case c.Status == 0:
		c.Status = http.StatusTooManyRequests
	case c.Status < 400 || c.Status > 599:
		fault("Status %d must be from 400 to 599, or 0 for 429", c.Status)
	}
	if c.Count > CountSuccesses {
		fault("Count %d is none of CountAll, CountFailures and CountSuccesses", c.Count)
	}
	if c.Headers > NoFields {
		fault("Headers %d is neither Draft11 nor NoFields", c.Headers)
	}
	if c.Legacy > LegacyUnix {
		fault("Legacy %d is none of NoLegacy, LegacySeconds and LegacyUnix", c.Legacy)
	}
	if c.Jitter < 0 || c.RenewEvery < 0 || c.SettleWithin < 0 {
		fault("Jitter %v, RenewEvery %v and SettleWithin %v must not be negative: leave them 0 for the default",
			c.Jitter, c.RenewEvery, c.SettleWithin)
	}
	if c.SettleWithin == 0 {
		c.SettleWithin = time.Hour
	}
	switch q := c.Queue; {
	case q.Length < 0 || q.Wait < 0:
		fault("Queue{Length: %d, Wait: %v} must not be negative: leave it zero, so that none waits", q.Length, q.Wait)
	case (q.Length > 0) != (q.Wait > 0):
		fault("Queue{Length: %d, Wait: %v} needs both: how many wait, and for how long", q.Length, q.Wait)
	}
}

// connect finds out what the decider can do, and whether that is enough for the config.
func (m *Middleware) connect(fault func(format string, args ...any)) {
	limiter, isLimiter := m.decider.(*tidegate.Limiter)
	if isLimiter && limiter == nil {
		fault("the limiter is nil: look at the error of tidegate.New")
		return
	}
	m.holder, _ = m.decider.(tidegate.Holder)
	m.teller, _ = m.decider.(tidegate.Teller)
	reserves := m.cfg.Count != CountAll || m.cfg.Queue.Length > 0
	switch {
	case isLimiter:
		m.limiter = limiter
		switch a := limiter.Limit().Algorithm; {
		case a == tidegate.Concurrency && m.cfg.Count != CountAll:
			fault("Count is for limits that are charged: %q gives every place back", limiter.Limit())
		case a == tidegate.SlidingLog && reserves:
			fault("Count and Queue need reservations, which a sliding log has not: take a sliding window instead of %q", limiter.Limit())
		}
	case reserves && m.holder == nil:
		fault("Count and Queue need a decider that can give back, such as a *tidegate.Limiter or a *rules.Engine: %T is no tidegate.Holder", m.decider)
	}
	if m.cfg.Queue.Length > 0 {
		m.queue = newQueue(m.cfg.Queue)
	}
}

// Close answers those that wait in the queue, with a 503, and lets none wait any more. Requests are decided on as before.
// Register it with [http.Server.RegisterOnShutdown] where a shutdown is not to wait for the queue.
//
// It returns when what is being given back to the store has been, which for each request takes a second at most: call it once more
// when the server has shut down and before the program ends, under permits or a Count, so that nothing is left to expire.
func (m *Middleware) Close() error {
	if m.queue != nil {
		m.queue.close()
	}
	m.returns.Wait(giveBack)
	return nil
}

// logger is where warnings go.
func (m *Middleware) logger() *slog.Logger {
	if m.cfg.Logger != nil {
		return m.cfg.Logger
	}
	return slog.Default() //nolint:forbidigo // a warning that nobody gets helps nobody
}

// Waiting returns how many wait in the queue now.
func (m *Middleware) Waiting() int {
	if m.queue == nil {
		return 0
	}
	return int(m.queue.waiting.Load())
}

// Wrap returns a handler that keeps to the limits before next serves. An outer handler's headers, such as those of CORS,
// stay as they are, also in the answer to a refused request.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := attributePool.Get().(*attributes)
		a.m, a.http = m, httpRequest{r: r, pattern: m.cfg.Pattern}
		a.req = &a.http
		var p Passage
		m.enter(r.Context(), a, &p)
		a.free()

		p.setFields(w.Header())
		if p.refusal != nil {
			if m.cfg.Respond != nil {
				m.cfg.Respond(w, r, p.refusal)
			} else {
				p.refusal.Write(w)
			}
			return
		}
		if p.decided && !m.cfg.NoContext {
			r = r.WithContext(NewContext(r.Context(), p.decision))
		}
		switch held := p.held; {
		case m.cfg.Outcome != nil:
			outcome := m.outcome(r)
			serveCounted(func(status int) {
				held.done(status)
				outcome(status)
			}, next, w, r)
		case held == nil:
			next.ServeHTTP(w, r)
		case m.cfg.Count == CountAll: // the status is of no matter
			defer held.done(0)
			next.ServeHTTP(w, r)
		default:
			serveCounted(held.done, next, w, r)
		}
	})
}

// serveCounted reports the response's status when it is complete, and a panic as a failure.
func serveCounted(done func(status int), next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec, wrapped := record(w)
	panicked := true
	defer func() {
		if panicked {
			done(http.StatusInternalServerError)
		} else {
			done(rec.final())
		}
	}()
	next.ServeHTTP(wrapped, r)
	panicked = false
}

// Enter decides on a request that came through another framework than net/http: see [Passage]. It may wait, as long as
// the queue or a leaky bucket says.
func (m *Middleware) Enter(ctx context.Context, req Request) *Passage {
	a := attributePool.Get().(*attributes)
	a.m, a.req = m, req
	p := new(Passage)
	m.enter(ctx, a, p)
	a.free()
	if m.cfg.Outcome != nil && p.refusal == nil {
		p.outcome = m.outcome(req.HTTP())
	}
	return p
}

// outcome returns what tells how a request that begins to be served now is answered.
func (m *Middleware) outcome(r *http.Request) func(status int) {
	began := time.Now()
	return func(status int) { m.cfg.Outcome(r, status, time.Since(began)) }
}
