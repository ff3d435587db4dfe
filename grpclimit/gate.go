package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
)

// gate is what the interceptors of both sides have in common: it asks the decider and waits as long as it may.
type gate struct {
	decider    tidegate.Decider
	limiter    *tidegate.Limiter // the decider, where it is one
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
		g.limiter = l
	}
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
// charged nothing. A call that waits for its turn holds its permit.
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
	if err := g.pass(c, w, g.callCost(c)); err != nil {
		return nil, err
	}
	admitted = true
	return h, nil
}

// passMessage charges a message of a stream.
func (g *gate) passMessage(c *Call, message any, cost func(*Call) int64) error {
	c.message = message
	w := wait{gate: g}
	defer func() { // also when a function of the configuration panics, and its server recovers
		w.end()
		c.message = nil
	}()
	return g.pass(c, &w, cost(c))
}

// pass charges the cost, and waits for its turn as far as w allows. The error, which has a gRPC status, is nil when the call
// may go on; what was decided is then in the call.
func (g *gate) pass(c *Call, w *wait, cost int64) error {
	if cost <= 0 {
		return nil
	}
	if g.limiter != nil && g.limiter.Limit().Algorithm == tidegate.LeakyBucket {
		// Its queue makes calls wait: by a reservation, so that one that gives up is given back.
		if err := g.reserve(c, 0, cost); !errors.Is(err, tidegate.ErrUnsupported) {
			return err
		}
	}
	for {
		d, err := g.decider.Decide(c.ctx, c, cost)
		switch {
		case err != nil:
			return g.failed(c, err)
		case d.Allowed:
			if err := sleep(c.ctx, d.Delay); err != nil {
				return status.FromContextError(err).Err()
			}
			g.decided(c, d)
			return nil
		case d.Unavailable() || !w.enter(c.ctx, max(d.RetryAfter, shortestWait)):
			if err := c.ctx.Err(); err != nil {
				return status.FromContextError(err).Err()
			}
			return g.refuse(d)
		}
		if g.limiter != nil {
			// The store gives turns in order, to those who reserve them.
			if err := g.reserve(c, w.left(c.ctx), cost); !errors.Is(err, tidegate.ErrUnsupported) {
				return err
			}
		}
		// An engine of rules, or a sliding log: who asks when there is room passes.
		if err := sleep(c.ctx, max(d.RetryAfter, shortestWait)); err != nil {
			return status.FromContextError(err).Err()
		}
	}
}

// reserve takes a turn that is later by at most so much, or by as much as a leaky bucket's queue says, and sleeps until then.
// It is [tidegate.ErrUnsupported] if the limit has none.
func (g *gate) reserve(c *Call, most time.Duration, cost int64) error {
	key, ok := c.Attribute(g.limiter.KeyBy())
	if !ok {
		g.decided(c, tidegate.Combine(nil, nil))
		return nil
	}
	r, err := g.limiter.ReserveWithin(c.ctx, key, cost, most, 0)
	switch {
	case errors.Is(err, tidegate.ErrUnsupported):
		return err
	case err != nil:
		return g.failed(c, err)
	case !r.OK():
		return g.refuse(r.Decision())
	}
	if err := sleep(c.ctx, r.Delay()); err != nil {
		// The caller is gone, the charge is not: give it back on a context of its own, briefly.
		back, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), releaseTimeout)
		defer cancel()
		_ = r.Cancel(back) // what cannot be given back stays charged
		return status.FromContextError(err).Err()
	}
	g.decided(c, r.Decision())
	return nil
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
