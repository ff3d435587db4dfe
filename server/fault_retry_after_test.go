package server

import (
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Retry-After was missing, or 0 for waits below a second, or rounded down so that one who followed it came too early
// (RB-040); a date where seconds were meant, so that clients waited fifty years (RB-116); so large that a client's
// arithmetic overflowed to a retry at once (RB-134).
func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 1},
		{1, 1},
		{200 * time.Millisecond, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{12300 * time.Millisecond, 13},
		{365 * 24 * time.Hour, 31_536_000},
		{50 * 365 * 24 * time.Hour, 1_576_800_000},
		{math.MaxInt64 - 1, math.MaxInt32},
		{tidegate.Never, 0}, // no header
	} {
		if got := retryAfter(c.wait); got != c.want {
			t.Errorf("a wait of %v: %d s, want %d s", c.wait, got, c.want)
		}
	}
}

// Who follows Retry-After passes, and no earlier second would have been enough.
func TestRetryAfterIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, &Config{Rules: []Rule{
			{Name: "slow", Limit: tidegate.Limit{Rate: 10, Per: 123 * time.Second, Burst: 1}},
		}})
		wantStatus(t, post(s, "/v1/take", `{"rule":"slow"}`), http.StatusOK)
		w := post(s, "/v1/take", `{"rule":"slow"}`)
		wantStatus(t, w, http.StatusTooManyRequests)
		if got := w.Header().Get("Retry-After"); got != "13" {
			t.Fatalf("a wait of 12.3 s: Retry-After is %q", got)
		}
		<-time.After(12 * time.Second) // virtual
		wantStatus(t, post(s, "/v1/take", `{"rule":"slow"}`), http.StatusTooManyRequests)
		<-time.After(time.Second)
		wantStatus(t, post(s, "/v1/take", `{"rule":"slow"}`), http.StatusOK)
	})
}

func TestNoRetryAfterWhereWaitingIsInVain(t *testing.T) {
	s := newTestServer(t, nil)
	for _, body := range []string{`{"rule":"example","key":"k","cost":21}`, `{"rule":"closed","key":"k"}`} {
		w := post(s, "/v1/take", body)
		wantStatus(t, w, http.StatusTooManyRequests)
		if got := w.Header().Values("Retry-After"); got != nil {
			t.Errorf("%s: Retry-After is %q", body, got)
		}
	}
}
