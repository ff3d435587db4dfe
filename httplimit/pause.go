package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pauses are until when hosts do not want requests.
type pauses struct {
	max   int
	mu    sync.Mutex
	until map[string]time.Time
}

// rest is how much of the host's pause is left; not above 0 where none is on.
func (p *pauses) rest(host string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[host]
	if !ok {
		return 0
	}
	d := until.Sub(now)
	if d <= 0 {
		delete(p.until, host)
	}
	return d
}

// add begins a pause, or prolongs one: answers may arrive in another order than they were sent.
func (p *pauses) add(host string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := now.Add(d)
	old, ok := p.until[host]
	if ok && !until.After(old) {
		return
	}
	if !ok && len(p.until) >= p.max {
		p.makeRoom(now)
	}
	p.until[host] = until
}

// makeRoom forgets pauses that are over, else the one that ends first.
func (p *pauses) makeRoom(now time.Time) {
	var first string
	var ends time.Time
	for host, until := range p.until {
		if !until.After(now) {
			delete(p.until, host)
		}
		if first == "" || until.Before(ends) {
			first, ends = host, until
		}
	}
	if len(p.until) >= p.max {
		delete(p.until, first)
	}
}

// pauseOf is how long the other side wants no requests after this answer. Retry-After goes before RateLimit; what is
// malformed is ignored, and so is what a cache has kept.
func pauseOf(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if d, ok := parseRetryAfter(resp.Header, now); ok {
			return d
		}
	}
	if resp.Header.Get("Age") != "" {
		return 0
	}
	lines := resp.Header["Ratelimit"]
	if len(lines) == 0 {
		return 0
	}
	t, ok := exhausted(strings.Join(lines, ","))
	if !ok {
		return 0
	}
	return duration(t)
}

// duration is so many seconds, at most what a duration holds.
func duration(seconds int64) time.Duration {
	return time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second
}

// parseRetryAfter reads seconds or a date. A date is compared with the answer's own where it has one, as the clocks may
// differ.
func parseRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	s := strings.Trim(h.Get("Retry-After"), " \t")
	if s == "" {
		return 0, false
	}
	if strings.Trim(s, "0123456789") == "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			n = math.MaxInt64 // digits that do not fit
		}
		return duration(n), true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}
