package httplimit

import (
	"strconv"
	"time"

	"github.com/tidegate-go/tidegate"
)

// The fields RateLimit-Policy and RateLimit as structured fields (RFC 9651), as in draft 11.

// policy is an item of RateLimit-Policy.
type policy struct {
	rule       string
	quota      int64
	window     int64 // seconds; 0 where it is not known, or none
	concurrent bool
}

// policyOf returns the policy that the decision is about. The window, where the decider tells the limit, is how long
// a bucket that is empty takes to fill, so that who spends the quota in each window keeps to the limit.
func (m *Middleware) policyOf(d *tidegate.Decision) policy {
	p := policy{rule: d.Rule, quota: d.Limit}
	if m.teller == nil {
		return p
	}
	l := m.teller.LimitOf(d.Rule, d.Limit)
	if l == nil {
		return p
	}
	switch l.Algorithm {
	case tidegate.TokenBucket:
		p.window = fill(l.Burst, l)
	case tidegate.LeakyBucket:
		p.window = fill(l.Queue+1, l)
	case tidegate.FixedWindow, tidegate.SlidingWindow, tidegate.SlidingLog:
		p.window = seconds(l.Per) // none for one of the calendar: months differ
	case tidegate.Concurrency:
		p.concurrent = true
	case tidegate.Unlimited, tidegate.None:
	}
	return p
}

// fill is how many seconds n tokens take to come.
func fill(n int64, l *tidegate.Limit) int64 {
	t := float64(n) * float64(l.Per) / float64(l.Rate)
	if t >= float64(1<<31)*float64(time.Second) {
		return 1<<31 - 1
	}
	return seconds(time.Duration(t))
}

// String writes the policy as an item of the list.
func (p policy) String() string {
	b := appendString(nil, p.rule)
	b = appendInteger(append(b, ";q="...), p.quota)
	if p.concurrent {
		b = append(b, `;qu="concurrent-requests"`...)
	}
	if p.window > 0 {
		b = appendInteger(append(b, ";w="...), p.window)
	}
	return string(b)
}

// available writes an item of RateLimit: what remains, and after how many seconds that changes; 0 for never.
func available(rule string, remaining, t int64) string {
	var buf [128]byte
	b := appendString(buf[:0], rule)
	b = appendInteger(append(b, ";r="...), remaining)
	if t > 0 {
		b = appendInteger(append(b, ";t="...), t)
	}
	return string(b)
}

// appendString writes a String. It has printable ASCII alone: other bytes are written as in a URL.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c >= 0x7f || c == '%':
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendInteger writes an Integer, which has 15 digits at most.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(n, 999_999_999_999_999), 10)
}
