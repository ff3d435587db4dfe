package grpclimit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	defaultMaxPushback = time.Minute
	// maxPushbacks bounds what is remembered where PushbackBy has many values.
	maxPushbacks = 10_000
)

// pushbacks remembers what servers have said about when to call again.
type pushbacks struct {
	by   string
	most time.Duration

	active atomic.Int64 // the size of until, so that where there is nothing to obey no lock is taken
	mu     sync.Mutex
	until  map[pushbackKey]pushbackUntil
}

type pushbackKey struct{ target, method, value string }

type pushbackUntil struct {
	at   time.Time
	code codes.Code
}

func newPushbacks(by string, most time.Duration) *pushbacks {
	if most == 0 {
		most = defaultMaxPushback
	}
	return &pushbacks{by: by, most: most, until: make(map[pushbackKey]pushbackUntil)}
}

func (p *pushbacks) key(c *Call) pushbackKey {
	k := pushbackKey{target: c.target, method: c.method}
	if p.by != "" {
		k.value, _ = c.Attribute(p.by)
	}
	return k
}

// pass waits until the server may be called again, as far as w allows. The error has the code that the server's answer had.
func (p *pushbacks) pass(c *Call, w *wait) error {
	if p == nil || p.active.Load() == 0 {
		return nil
	}
	k := p.key(c)
	for {
		left, code := p.left(k)
		if left <= 0 {
			return nil
		}
		if w.enter(c.ctx, left) {
			if err := sleep(c.ctx, left); err != nil {
				return status.FromContextError(err).Err()
			}
			continue // the server may have said more since
		}
		if err := c.ctx.Err(); err != nil {
			return status.FromContextError(err).Err()
		}
		return &refusal{
			gate:    c.gate,
			code:    code,
			message: fmt.Sprintf("tidegate: not sent: the server asked to be left alone for another %v", left),
			retry:   left,
		}
	}
}

// left returns how long the server is still to be left alone, and why.
func (p *pushbacks) left(k pushbackKey) (time.Duration, codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, ok := p.until[k]
	if !ok {
		return 0, codes.OK
	}
	left := time.Until(u.at)
	if left <= 0 {
		delete(p.until, k)
		p.active.Store(int64(len(p.until)))
	}
	return left, u.code
}

// observe remembers what the server's answer says. Only RetryInfo counts: RESOURCE_EXHAUSTED alone may as well mean that a
// message is too large, and UNAVAILABLE that a connection broke.
func (p *pushbacks) observe(c *Call, err error) {
	if p == nil || err == nil {
		return
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return // of another client's interceptors, not of the server
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return
	}
	delay, ok := retryInfo(s)
	if !ok || delay == 0 {
		return
	}
	k, now := p.key(c), time.Now()
	u := pushbackUntil{at: now.Add(min(delay, p.most)), code: s.Code()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.until[k]; ok && old.at.After(u.at) {
		return
	}
	p.makeRoom(now)
	p.until[k] = u
	p.active.Store(int64(len(p.until)))
}

// makeRoom forgets what is over when there is no more room, and any one if that does not help: the server will say it again.
func (p *pushbacks) makeRoom(now time.Time) {
	if len(p.until) < maxPushbacks {
		return
	}
	for k, u := range p.until {
		if !u.at.After(now) {
			delete(p.until, k)
		}
	}
	for k := range p.until {
		if len(p.until) < maxPushbacks {
			return
		}
		delete(p.until, k)
	}
}
