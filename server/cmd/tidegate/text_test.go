package main

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestDecisionText(t *testing.T) {
	for _, c := range []struct {
		d    tidegate.Decision
		want string
	}{
		{
			tidegate.Decision{Allowed: true, Limit: 20, Remaining: 20, Rule: "r"},
			"allowed: remaining 20 of 20 (rule r, source store)",
		},
		{
			tidegate.Decision{Allowed: true, Limit: 6, Delay: 300 * time.Millisecond, ResetAfter: 400 * time.Millisecond, Rule: "r"},
			"allowed, delay 300ms: remaining 0 of 6, reset after 400ms (rule r, source store)",
		},
		{
			tidegate.Decision{Limit: 20, RetryAfter: 1, ResetAfter: 2 * time.Second, Rule: "r", Source: tidegate.SourceDeniedCache},
			"denied: remaining 0 of 20, retry after 1µs, reset after 2s (rule r, source denied-cache)",
		},
		{
			tidegate.Decision{RetryAfter: tidegate.Never, ResetAfter: tidegate.Never, Rule: "r"},
			"denied: remaining 0 of 0, can never pass (rule r, source store)",
		},
		{
			tidegate.Decision{Allowed: true, Limit: tidegate.NoLimit, Remaining: tidegate.NoLimit, Source: tidegate.SourceUnlimited, Rule: "r"},
			"allowed: unlimited (rule r, source unlimited)",
		},
	} {
		if got := decisionText(c.d); got != c.want {
			t.Errorf("%+v\ngot  %s\nwant %s", c.d, got, c.want)
		}
	}
}

func TestShownTimesAreRoundedUp(t *testing.T) {
	for _, c := range []struct{ d, want time.Duration }{
		{0, 0},
		{1, time.Microsecond},
		{9_999_999, 10 * time.Millisecond},
		{1_234_567_891, 1_235 * time.Millisecond},
		{123_456_789_123, 123_500 * time.Millisecond},
		{36_000_000_000_001, 10*time.Hour + time.Second},
	} {
		if got := shown(c.d); got != c.want {
			t.Errorf("%v is shown as %v, want %v", c.d, got, c.want)
		}
	}
}
