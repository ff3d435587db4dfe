package httplimit

import (
	"math/rand/v2"
	"net/textproto"
	"strconv"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Fields are kept in a [net/http.Header] under their canonical names.
const (
	rateLimit       = "RateLimit"
	rateLimitPolicy = "RateLimit-Policy"
)

// fieldKey returns the canonical name, which allocates nothing for those that are set with each response.
func fieldKey(name string) string {
	switch name {
	case rateLimit:
		return "Ratelimit"
	case rateLimitPolicy:
		return "Ratelimit-Policy"
	case "X-RateLimit-Limit":
		return "X-Ratelimit-Limit"
	case "X-RateLimit-Remaining":
		return "X-Ratelimit-Remaining"
	case "X-RateLimit-Reset":
		return "X-Ratelimit-Reset"
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// describe adds the fields that tell the decision. Wait is after how many seconds a refused request can pass. Where nothing
// limits, or no store was there to say, there is nothing to tell.
func (m *Middleware) describe(p *Passage, wait int64) {
	d := &p.decision
	if d.Limit == tidegate.NoLimit || d.Unavailable() {
		return
	}
	t := wait
	if d.Allowed {
		t = seconds(m.availableAfter(d))
	}
	if m.cfg.Headers == Draft11 {
		p.add(Field{Name: rateLimitPolicy, Value: m.policies.get(m.policyOf(d)), List: true})
		p.add(Field{Name: rateLimit, Value: available(d.Rule, d.Remaining, t), List: true})
	}
	if m.cfg.Legacy == NoLegacy {
		return
	}
	p.add(Field{Name: "X-RateLimit-Limit", Value: formatInt(d.Limit)})
	p.add(Field{Name: "X-RateLimit-Remaining", Value: formatInt(d.Remaining)})
	switch {
	case !d.Allowed && d.RetryAfter == tidegate.Never:
	case m.cfg.Legacy == LegacyUnix:
		wait := d.RetryAfter
		if d.Allowed {
			wait = m.availableAfter(d)
		}
		p.add(Field{Name: "X-RateLimit-Reset", Value: formatInt(unixCeil(time.Now().Add(wait)))})
	default:
		p.add(Field{Name: "X-RateLimit-Reset", Value: formatInt(t)})
	}
}

// unixCeil is the first whole second that is not before t.
func unixCeil(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// availableAfter is after which time there is more to take than now: one token where nothing remains of a bucket that
// fills steadily, all of it otherwise. For permits it is when to look again, as nobody knows when one is given back.
func (m *Middleware) availableAfter(d *tidegate.Decision) time.Duration {
	if m.teller == nil {
		return d.ResetAfter
	}
	l := m.teller.LimitOf(d.Rule, d.Limit)
	switch {
	case l == nil:
		return d.ResetAfter
	case l.Algorithm == tidegate.Concurrency:
		return min(d.ResetAfter, permitRetry)
	case d.Remaining > 0 || l.Algorithm != tidegate.TokenBucket && l.Algorithm != tidegate.LeakyBucket || l.Warmup > 0 || l.Shards > 1:
		return d.ResetAfter
	}
	rest := time.Duration(float64(d.Limit-1) * float64(l.Per) / float64(l.Rate))
	if next := d.ResetAfter - rest; rest >= 0 && next > 0 {
		return next
	}
	return d.ResetAfter
}

// seconds is d in whole seconds, rounded up, so that one who waits them passes, and at most what clients keep in 32 bits.
// 0 for 0, and for [tidegate.Never].
func seconds(d time.Duration) int64 {
	if d <= 0 || d == tidegate.Never {
		return 0
	}
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return min(s, 1<<31-1)
}

// retryAfter is the Retry-After header: at least 1, as 0 would be an invitation to try at once, with jitter; 0, for none,
// where waiting is in vain.
func (m *Middleware) retryAfter(d time.Duration) int64 {
	if d == tidegate.Never {
		return 0
	}
	if j := m.cfg.Jitter; j > 0 {
		if d += rand.N(j); d < 0 {
			d = 1<<63 - 2
		}
	}
	return max(1, seconds(d))
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
