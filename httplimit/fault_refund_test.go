package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// A request that outlived its window was given back to the next one, which so had more than its limit; and one whose client
// left early was not given back at all (RB-114).
func TestRefundGoesWhereItWasCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, "5/s fixed-window")
		h := middleware(t, l, &httplimit.Config{Count: httplimit.CountFailures}).Wrap(takes(1500 * time.Millisecond))
		for range 20 {
			answers := crowd(20, h)
			if n := len(answers[http.StatusOK]); n != 5 {
				t.Fatalf("%d passed, want the 5 of a window", n)
			}
			d, err := l.Peek(t.Context(), "192.0.2.1")
			if err != nil || d.Remaining > 5 || d.Remaining < 0 {
				t.Fatalf("%+v, %v", d, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestRefundWhenTheClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a refund has all the time that the response waits for it
		l := limiter(t, "5/h")
		m := middleware(t, l, &httplimit.Config{Count: httplimit.CountFailures})
		ctx, cancel := context.WithCancel(t.Context())
		getWith(ctx, m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })))
		if d, err := l.Peek(t.Context(), "192.0.2.1"); err != nil || d.Remaining != 5 {
			t.Errorf("after a success that nobody saw: %+v, %v", d, err)
		}
	})
}
