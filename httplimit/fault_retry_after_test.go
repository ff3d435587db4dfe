package httplimit_test

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// Retry-After was missing, or 0 below a second, or rounded down (RB-040, RB-064); seconds and dates were mixed (RB-116); so
// large that a client's arithmetic overflowed (RB-134).

// Who follows it passes, and a second earlier would have been too early.
func TestRetryAfterIsEnough(t *testing.T) {
	for _, limit := range []string{"1/s", "3/s", "7/min burst 2", "600/s burst 100", "5/min fixed-window", "4/10s sliding-window", "3/10s sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(12345678 * time.Microsecond) // somewhere in a window
				h := middleware(t, limiter(t, limit), nil).Wrap(http.HandlerFunc(ok))
				refused := 0
				for range 1000 {
					w := get(h)
					if w.Code == http.StatusOK {
						if got := w.Header().Get("Retry-After"); got != "" {
							t.Fatalf("one that passes is told to come back after %q", got)
						}
						continue
					}
					refused++
					seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
					if err != nil || seconds < 1 {
						t.Fatalf("Retry-After %q", w.Header().Get("Retry-After"))
					}
					time.Sleep(time.Duration(seconds) * time.Second)
					if w := get(h); w.Code != http.StatusOK {
						t.Fatalf("refused again after %d s", seconds)
					}
				}
				if refused == 0 {
					t.Error("none was refused")
				}
			})
		})
	}
}

// Jitter spreads, and never shortens.
func TestJitter(t *testing.T) {
	wait := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		return tidegate.Decision{Limit: 1, Rule: "api", RetryAfter: 9500 * time.Millisecond}, nil
	})
	seen := make(map[string]int)
	m := middleware(t, wait, &httplimit.Config{Jitter: 5 * time.Second}).Wrap(http.HandlerFunc(ok))
	for range 1000 {
		w := get(m)
		seen[w.Header().Get("Retry-After")]++
		if got := w.Header().Get("RateLimit"); got != `"api";r=0;t=10` {
			t.Fatalf("RateLimit %s", got)
		}
	}
	for s := range seen {
		if n, err := strconv.Atoi(s); err != nil || n < 10 || n > 15 {
			t.Errorf("Retry-After %q", s)
		}
	}
	if len(seen) < 4 {
		t.Errorf("no spread: %v", seen)
	}
	never := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		return tidegate.Decision{Limit: 1, RetryAfter: tidegate.Never}, nil
	})
	if got, ok := get(middleware(t, never, &httplimit.Config{Jitter: time.Hour}).Wrap(http.HandlerFunc(nil))).Header()["Retry-After"]; ok {
		t.Errorf("never is told as %q", got)
	}
	now := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		return tidegate.Decision{Limit: 1}, nil // at the very edge of a window
	})
	if got := get(middleware(t, now, nil).Wrap(http.HandlerFunc(nil))).Header().Get("Retry-After"); got != "1" {
		t.Errorf("no wait at all is told as %q", got)
	}
	ages := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		return tidegate.Decision{Limit: 1, RetryAfter: math.MaxInt64 - 1}, nil
	})
	if got := get(middleware(t, ages, &httplimit.Config{Jitter: math.MaxInt64}).Wrap(http.HandlerFunc(nil))).Header().Get("Retry-After"); got != "2147483647" {
		t.Errorf("a wait of centuries is told as %q", got)
	}
}

// The legacy reset is what the config says, in either meaning.
func TestLegacyReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(200 * time.Millisecond)
		wait := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
			return tidegate.Decision{Limit: 1, RetryAfter: 12300 * time.Millisecond, ResetAfter: 20 * time.Second}, nil
		})
		now := time.Now().Unix()
		for legacy, want := range map[httplimit.Legacy]int64{httplimit.LegacySeconds: 13, httplimit.LegacyUnix: now + 13} {
			w := get(middleware(t, wait, &httplimit.Config{Legacy: legacy}).Wrap(http.HandlerFunc(nil)))
			if got := w.Header().Get("X-RateLimit-Reset"); got != strconv.FormatInt(want, 10) {
				t.Errorf("X-RateLimit-Reset %s, want %d", got, want)
			}
			if got := w.Header().Get("Retry-After"); got != "13" {
				t.Errorf("Retry-After %s", got)
			}
		}
	})
}
