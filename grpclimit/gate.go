package grpclimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/afterwards"
)

// gate is what the interceptors of both sides have in common: it asks the decider and waits as long as it may.
type gate struct {
	decider    tidegate.Decider
	holder     tidegate.Holder // the decider, where it is one, as limiters and engines are
	teller     tidegate.Teller // the decider, where it is one, as limiters and engines are
	cost       func(*Call) int64
	skip       func(*Call) bool
	receive    func(*Call) int64
	send       func(*Call) int64
	attribute  func(*Call, string) (string, bool)
	clientIP   func(*Call) netip.Addr
	ipv6Prefix int
	permits    permits
	maxWait    time.Duration
	maxWaiting int64
	failOpen   bool
	log        *slog.Logger

	waiting   atomic.Int64 // calls and messages that wait
	noAddress atomic.Bool  // it was said that calls have no address
	failures  failureLog
	returns   afterwards.Calls
}

// check fills in the defaults, or says all that is wrong.
func (g *gate) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("grpclimit: "+format, args...)) }
	if g.decider == nil {
		wrong("the decider is nil: give one, such as the limiter that tidegate.New returns")
	}
	if l, ok := g.decider.(*tidegate.Limiter); ok {
		if l == nil {
			wrong("the decider is a nil *tidegate.Limiter: did tidegate.New return an error?")
		} else if l.Limit().Algorithm == tidegate.Concurrency {
			wrong("the limit %q is one of permits, which have to be given back: set it as Permits, not as the decider", l.Limit())
		}
	}
	g.holder, _ = g.decider.(tidegate.Holder)
	g.teller, _ = g.decider.(tidegate.Teller)
	if p := g.permits.limiter; p != nil {
		switch a := p.Limit().Algorithm; a {
		case tidegate.Concurrency, tidegate.None, tidegate.Unlimited:
		default:
			wrong(`Permits has the limit %q, which is not one of permits: write one such as "20 concurrent"`, p.Limit())
		}
	} else if g.permits.by != "" {
		wrong("PermitsBy is %q, but Permits is not set: set both or none", g.permits.by)
	}
	if g.maxWait < 0 {
		wrong("MaxWait is %v: it must not be negative; 0 refuses at once", g.maxWait)
	}
	switch {
	case g.maxWaiting < 0:
		wrong("MaxWaiting is %d: it must be at least 1, or 0 for the default of %d", g.maxWaiting, defaultMaxWaiting)
	case g.maxWaiting == 0:
		g.maxWaiting = defaultMaxWaiting
	}
	switch {
	case g.ipv6Prefix < 0 || g.ipv6Prefix > 128:
		wrong("IPv6Prefix is %d: it must be from 1 to 128, or 0 for the default of %d", g.ipv6Prefix, defaultIPv6Prefix)
	case g.ipv6Prefix == 0:
		g.ipv6Prefix = defaultIPv6Prefix
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

const (
	defaultMaxWaiting = 100
	defaultIPv6Prefix = 64
	// shortestWait keeps a decider that refuses without saying for how long from being asked in a loop.
	shortestWait = time.Millisecond
)

// callCost is what a call costs: 1 unless the configuration says otherwise.
func (g *gate) callCost(c *Call) int64 {
	if g.cost == nil {
		return 1
	}
	return g.cost(c)
}

// admit takes a permit, which the caller releases, then charges the call; in this order, so that one that is refused was
// charged nothing. A call that waits for its turn holds its permit. Permits of the decider's own are taken with the charge.
func (g *gate) admit(c *Call, w *wait) (*held, error) {
	h, err := g.acquire(c)
	if err != nil {
		return nil, err
	}
	admitted := false
	defer func() {
		if !admitted { // also when a function of the configuration panics: nobody else would ever release it
			h.release()
		}
	}()
	own, err := g.pass(c, w, tidegate.Terms{Cost: g.callCost(c)})
	if err != nil {
		return nil, err
	}
	admitted = true
	return h.and(own), nil
}

// passMessage charges a message of a stream. It takes no permits: the stream has its own.
func (g *gate) passMessage(c *Call, message any, cost func(*Call) int64) error {
	c.message = message
	w := wait{gate: g}
	defer func() { // also when a function of the configuration panics, and its server recovers
		w.end()
		c.message = nil
	}()
	_, err := g.pass(c, &w, tidegate.Terms{Cost: cost(c), NoPermits: true})
	return err
}

// lookEvery is how often a call that waits for a permit of its decider asks for one.
const lookEvery = 250 * time.Millisecond

// pass charges on the terms, and waits for its turn as far as w allows. The error, which has a gRPC status, is nil when the call
// may go on; what was decided is then in the call, and what it holds is to be released.
func (g *gate) pass(c *Call, w *wait, t tidegate.Terms) (*held, error) {
	if t.Cost <= 0 {
		return nil, nil //nolint:nilnil // release of nil does nothing
	}
	for {
		d, hold, err := g.ask(c, &t)
		if err != nil {
			return nil, g.failed(c, err)
		}
		if d.Allowed {
			return g.start(c, d, hold)
		}
		knowsTurns, every := g.turns(&d)
		inVain := d.Unavailable() || t.MaxWait > 0 && knowsTurns
		if inVain || !w.enter(c.ctx, every) {
			if err := c.ctx.Err(); err != nil {
				return nil, status.FromContextError(err).Err()
			}
			return nil, g.refuse(d)
		}
		if !knowsTurns { // who asks when there is room passes
			if err := sleep(c.ctx, every); err != nil {
				return nil, status.FromContextError(err).Err()
			}
		}
		// The store gives turns in order, to those who reserve them.
		if t.MaxWait = w.left(c.ctx); t.MaxWait == 0 && knowsTurns {
			return nil, g.refuse(d)
		}
	}
}

// ask asks the decider, as a holder where it is one.
func (g *gate) ask(c *Call, t *tidegate.Terms) (tidegate.Decision, tidegate.Hold, error) {
	if g.holder != nil {
		return g.holder.HoldFor(c.ctx, c, *t)
	}
	d, err := g.decider.Decide(c.ctx, c, t.Cost)
	return d, nil, err
}

// turns reports whether what refused knows turns, which are reserved, and after which time it is of use to ask again.
func (g *gate) turns(d *tidegate.Decision) (know bool, after time.Duration) {
	after = max(d.RetryAfter, shortestWait)
	if g.holder == nil {
		return false, after
	}
	if l := g.limitOf(d.Rule, d.Limit); l != nil {
		switch l.Algorithm {
		case tidegate.SlidingLog:
			return false, after
		case tidegate.Concurrency: // most are given back long before one expires
			if d.RetryAfter != tidegate.Never {
				after = min(after, lookEvery)
			}
			return false, after
		default:
		}
	}
	return true, after
}

// start sleeps until the call's time has come, and gives all back if the caller is gone before.
func (g *gate) start(c *Call, d tidegate.Decision, hold tidegate.Hold) (*held, error) {
	var h *held
	if hold != nil {
		h = g.keep(c.ctx, hold, hold.TTL())
	}
	if err := sleep(c.ctx, d.Delay); err != nil {
		h.cancel(hold)
		return nil, status.FromContextError(err).Err()
	}
	g.decided(c, d)
	if h != nil && h.ttl == 0 { // its time has come, so that there is nothing more to give back
		return nil, nil //nolint:nilnil // release of nil does nothing
	}
	return h, nil
}

// decided notes the decision that let the call pass.
func (g *gate) decided(c *Call, d tidegate.Decision) {
	g.failures.over(g.log)
	c.decision, c.decided = d, true
}

// failed says what happens to a call that could not be decided on.
func (g *gate) failed(c *Call, err error) error {
	if ctxErr := c.ctx.Err(); ctxErr != nil {
		return status.FromContextError(ctxErr).Err()
	}
	g.failures.add(g.log, err, g.failOpen)
	if g.failOpen {
		return nil
	}
	return g.undecided()
}

// warnNoAddress says once that a limit by address has no address to go by.
func (g *gate) warnNoAddress(c *Call) {
	if g.noAddress.Load() || g.noAddress.Swap(true) {
		return
	}
	if c.client {
		g.log.Warn(`a limit asks for the attribute "ip", which an outgoing call does not have, so that it does not apply: `+
			`let it go by "target", "method", or an attribute of your own`, slog.String("method", c.method))
		return
	}
	g.log.Warn(`a limit asks for the attribute "ip", but the peer has no IP address, so that it does not apply: `+
		`set ClientIP, or let it go by an attribute of your own`, slog.String("method", c.method))
}
