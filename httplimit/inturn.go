package httplimit

import (
	"context"
	"time"

	"github.com/tidegate-go/tidegate"
)

// acquireInTurn takes a permit of the limiter, in the order in which requests for its key came, as long as the queue allows.
func (m *Middleware) acquireInTurn(ctx context.Context, a *attributes, cost int64, p *Passage) (tidegate.Decision, error) {
	key, ok := a.Attribute(m.limiter.KeyBy())
	if !ok {
		return tidegate.Combine(nil, nil), nil
	}
	try := func() (tidegate.Decision, bool, error) {
		d, hold, err := m.limiter.HoldFor(ctx, a, tidegate.Terms{Cost: cost})
		if err != nil {
			return d, false, err
		}
		if hold != nil {
			p.held = m.keep(ctx, hold, key)
		}
		return d, d.Allowed || d.RetryAfter == tidegate.Never || d.Unavailable(), nil
	}
	q := m.queue
	if q == nil || q.empty(key) {
		d, final, err := try()
		if err != nil || final || q == nil {
			return d, err
		}
		if !q.enter() {
			return d, nil
		}
		return q.waitInLine(ctx, key, d, try)
	}
	if q.enter() {
		return q.waitInLine(ctx, key, tidegate.Decision{}, try)
	}
	// No place to wait, and others wait: one that is free just now is theirs.
	d, err := m.limiter.Peek(ctx, key)
	if err == nil && d.Allowed {
		d.Allowed, d.RetryAfter, d.Remaining = false, lookEvery, 0
	}
	return d, err
}

// holderLine is the line in which all wait for permits of a holder that is no limiter: it does not tell whose they are.
const holderLine = ""

// mayWait reports whether it is of use that a request that was refused waits.
func (m *Middleware) mayWait(d *tidegate.Decision) bool {
	switch {
	case d.Unavailable() || d.RetryAfter == tidegate.Never:
		return false
	case m.ofPermits(d): // of which nobody knows when one is given back
		return true
	}
	return d.RetryAfter <= m.queue.Wait
}

// holdInTurn reserves a turn within the time of the queue. For a permit that is in the way nobody can say when its turn comes: it
// asks again when one is released here, and every so often for those released elsewhere.
func (m *Middleware) holdInTurn(ctx context.Context, a *attributes, t tidegate.Terms) (tidegate.Decision, tidegate.Hold, error) {
	q := m.queue
	end := time.Now().Add(q.Wait)
	ask := func() (tidegate.Decision, tidegate.Hold, bool, error) {
		t.MaxWait = max(0, time.Until(end))
		d, hold, err := m.holder.HoldFor(ctx, a, t)
		return d, hold, err != nil || d.Allowed || !m.ofPermits(&d) || d.RetryAfter == tidegate.Never || d.Unavailable(), err
	}
	d, hold, final, err := ask()
	if final {
		return d, hold, err
	}
	turn := q.join(holderLine)
	defer q.quit(holderLine, turn)
	timeout := time.NewTimer(time.Until(end))
	defer timeout.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-turn:
		case <-look.C:
		case <-timeout.C:
			return d, nil, nil
		case <-ctx.Done():
			return d, nil, ctx.Err()
		case <-q.stop:
			return d, nil, errClosed
		}
		if d, hold, final, err = ask(); final {
			return d, hold, err
		}
	}
}

// waitInLine tries whenever it may help, and tells the last refusal when the time is up. The place that it was given in the
// queue is free when it returns.
func (q *queue) waitInLine(
	ctx context.Context, key string, last tidegate.Decision, try func() (tidegate.Decision, bool, error),
) (tidegate.Decision, error) {
	defer q.leave()
	turn := q.join(key)
	defer q.quit(key, turn)
	timeout := time.NewTimer(q.Wait)
	defer timeout.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	asked := false
	for {
		// Who has just come to the front may have been woken before.
		if q.first(key, turn) {
			d, final, err := try()
			if err != nil || final {
				return d, err
			}
			last, asked = d, true
		}
		select {
		case <-turn:
		case <-look.C:
		case <-timeout.C:
			if asked || last.RetryAfter > 0 {
				return last, nil
			}
			d, _, err := try() // there has to be an answer
			return d, err
		case <-ctx.Done():
			return last, ctx.Err()
		case <-q.stop:
			return last, errClosed
		}
	}
}
