package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A Passage is what was decided on one request. It is for adapters of frameworks; [Middleware.Wrap] is all that net/http
// needs. An adapter sets the fields on the response. If there is a refusal, it answers that. Otherwise it lets the handler
// run with the context, and calls Done with the response's status when the response is complete, also after a panic:
//
//	p := m.Enter(ctx, request)
//	for _, f := range p.Fields() { … }
//	if a := p.Refusal(); a != nil { … a.Status, httplimit.ContentType, a.Problem() … }
//	ctx = p.Context(ctx)
//	defer func() { p.Done(status) }()
type Passage struct {
	decision tidegate.Decision
	decided  bool
	refusal  *Answer
	held     *held
	outcome  func(status int) // nil where nobody is told
	fields   [maxFields]Field
	n        int
	bare     bool // without the decision in the context
}

// maxFields is how many there are at most: RateLimit-Policy, RateLimit, three X-RateLimit, Retry-After, Cache-Control.
const maxFields = 7

// A Field is a header field to set on the response.
type Field struct {
	Name, Value string
	// List says that the field is a list, to which others may have added: add it, where others are replaced.
	List bool
}

// Fields returns the fields to set on the response, whether the request passes or not.
func (p *Passage) Fields() []Field { return p.fields[:p.n] }

// Refusal returns how to answer the request; nil if the handler is to run.
func (p *Passage) Refusal() *Answer { return p.refusal }

// Decision returns the decision; false if none was made, since the request was skipped or the store failed.
func (p *Passage) Decision() (tidegate.Decision, bool) { return p.decision, p.decided }

// Context returns the context for the handler, with the decision in it unless [Config.NoContext] is set.
func (p *Passage) Context(ctx context.Context) context.Context {
	if !p.decided || p.bare {
		return ctx
	}
	return NewContext(ctx, p.decision)
}

// Done settles what depends on the status of the response, and releases what the request held. Only the first call counts.
func (p *Passage) Done(status int) {
	p.held.done(status)
	if o := p.outcome; o != nil {
		p.outcome = nil
		o(status)
	}
}

func (p *Passage) add(f Field) {
	p.fields[p.n] = f
	p.n++
}

// setFields sets the fields; their values share one allocation.
func (p *Passage) setFields(h http.Header) {
	if p.n == 0 {
		return
	}
	values := make([]string, p.n)
	for i := range p.fields[:p.n] {
		f := &p.fields[i]
		name := fieldKey(f.Name)
		if f.List && len(h[name]) > 0 {
			h[name] = append(h[name], f.Value)
			continue
		}
		values[i] = f.Value
		h[name] = values[i : i+1 : i+1]
	}
}

// enter decides on the request.
func (m *Middleware) enter(ctx context.Context, a *attributes, p *Passage) {
	c := &m.cfg
	p.bare = c.NoContext
	if c.Skip != nil && c.Skip(a.req.HTTP()) || !c.ChargePreflights && isPreflight(a.req) {
		return
	}
	cost := int64(1)
	if c.Cost != nil {
		if cost = c.Cost(a.req.HTTP()); cost < 1 {
			return
		}
	}
	for _, name := range c.Require {
		if _, ok := a.Attribute(name); !ok {
			m.refuse(p, &Answer{Status: http.StatusBadRequest, Missing: name})
			return
		}
	}
	d, err := m.decide(ctx, a, cost, p)
	if err != nil {
		m.undecided(ctx, err, p)
		return
	}
	if m.failing.Load() && m.failing.Swap(false) {
		m.logger().Info("httplimit: decisions are made again")
	}
	m.pass(d, p)
}

// decide asks the decider, in the way that the config and the limit want, and waits for the turn if that is later.
func (m *Middleware) decide(ctx context.Context, a *attributes, cost int64, p *Passage) (tidegate.Decision, error) {
	if l := m.limiter; l != nil && l.Limit().Algorithm == tidegate.Concurrency { // now: SetLimit may change it
		return m.acquireInTurn(ctx, a, cost, p)
	}
	if m.holder != nil {
		return m.hold(ctx, a, cost, p)
	}
	d, err := m.decider.Decide(ctx, a, cost)
	if err == nil && d.Allowed {
		err = sleep(ctx, nil, d.Delay)
	}
	return d, err
}

// permitRetry is after which time a request that found no permit is told to come again at the latest. The decision knows only
// when one expires; most are given back long before.
const permitRetry = time.Second

// ofPermits reports whether the decision is by a limit of what is in flight.
func (m *Middleware) ofPermits(d *tidegate.Decision) bool {
	if m.teller == nil {
		return false
	}
	l := m.teller.LimitOf(d.Rule, d.Limit)
	return l != nil && l.Algorithm == tidegate.Concurrency
}

// pass tells the decision in the fields, and refuses what it does.
func (m *Middleware) pass(d tidegate.Decision, p *Passage) {
	if !d.Allowed && d.RetryAfter > permitRetry && d.RetryAfter != tidegate.Never && m.ofPermits(&d) {
		d.RetryAfter = permitRetry
	}
	p.decision, p.decided = d, true
	if d.Allowed {
		m.describe(p, 0)
		return
	}
	answer := &Answer{Status: m.cfg.Status, Decision: d}
	if d.Unavailable() {
		answer.Status = http.StatusServiceUnavailable
	}
	answer.RetryAfter = m.retryAfter(d.RetryAfter)
	m.describe(p, seconds(d.RetryAfter))
	m.refuse(p, answer)
}

// undecided lets the request pass or not, as the config says, and tells the logger if that is news.
func (m *Middleware) undecided(ctx context.Context, err error, p *Passage) {
	if ctx.Err() != nil || errors.Is(err, errClosed) {
		// The client is gone, or the time for the request is over: no fault of the store.
		m.refuse(p, &Answer{Status: http.StatusServiceUnavailable, RetryAfter: m.retryAfter(time.Second), Err: err})
		return
	}
	if !m.failing.Load() && !m.failing.Swap(true) {
		m.logger().Warn("httplimit: decisions fail", "err", err, "fail_open", m.cfg.FailOpen)
	}
	if !m.cfg.FailOpen {
		m.refuse(p, &Answer{Status: http.StatusServiceUnavailable, RetryAfter: m.retryAfter(time.Second), Err: err})
	}
}

func (m *Middleware) refuse(p *Passage, a *Answer) {
	p.refusal = a
	if a.RetryAfter > 0 {
		p.add(Field{Name: "Retry-After", Value: formatInt(a.RetryAfter)})
	}
	p.add(Field{Name: "Cache-Control", Value: "no-store"})
}
