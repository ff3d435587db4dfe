package grpclimit

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tidegate-go/tidegate"
)

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

// addFields adds what the decision tells of its limit, in the syntax of draft-ietf-httpapi-ratelimit-headers-11; nothing
// where nothing limits.
func (g *gate) addFields(md metadata.MD, d *tidegate.Decision) {
	if d.Limit == tidegate.NoLimit {
		return
	}
	name := quoted(d.Rule)
	policy := name + ";q=" + integer(d.Limit)
	l := g.limitOf(d.Rule, d.Limit)
	permits := l != nil && l.Algorithm == tidegate.Concurrency
	if permits {
		policy += `;qu="concurrent-requests"`
	} else if l != nil {
		if w := window(l); w > 0 {
			policy += ";w=" + integer(seconds(w))
		}
	}
	left := name + ";r=" + integer(d.Remaining)
	// A refused caller is told when it can pass, which is what retry-after says; the bucket is full only later.
	reset := d.ResetAfter
	if !d.Allowed && d.RetryAfter != tidegate.Never {
		reset = d.RetryAfter
	}
	if permits { // nobody knows when one is given back
		reset = min(reset, permitRetry)
	}
	if reset > 0 && reset != tidegate.Never {
		left += ";t=" + integer(seconds(reset))
	}
	md["ratelimit-policy"] = append(md["ratelimit-policy"], policy)
	md["ratelimit"] = append(md["ratelimit"], left)
}

// limitOf returns the limit of the rule by which it was decided, as far as it is known; else nil.
func (g *gate) limitOf(rule string, capacity int64) *tidegate.Limit {
	if g.teller != nil {
		if l := g.teller.LimitOf(rule, capacity); l != nil {
			return l
		}
	}
	if l := g.permits.limiter; l != nil {
		return l.LimitOf(rule, capacity)
	}
	return nil
}

// window is how long it takes for all of the limit to come back, so that who spends it once in each window keeps to it.
// 0 where that has no constant length.
func window(l *tidegate.Limit) time.Duration {
	switch l.Algorithm {
	case tidegate.TokenBucket, tidegate.LeakyBucket:
		// At most 50 years, or the limit could not have been built.
		return time.Duration(float64(l.Capacity()) * float64(l.Per) / float64(l.Rate))
	case tidegate.FixedWindow, tidegate.SlidingWindow, tidegate.SlidingLog:
		return l.Per
	case tidegate.Concurrency, tidegate.None, tidegate.Unlimited:
	}
	return 0
}

func integer(n int64) string { return strconv.FormatInt(min(n, maxInteger), 10) }

// quoted writes a string of a structured field. It holds printable ASCII alone; other bytes are written as in a URL.
func quoted(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~' || c == '%':
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
