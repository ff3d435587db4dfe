package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// A sliding log, of which nothing can be given back, made every request a 503 under Count, though its rule was in shadow.
func TestLogInShadowUnderCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: rate, limit: 100/day}\n  - {name: trial, limit: 5/h sliding-log, shadow: true}\n")
		h := middleware(t, e, &httplimit.Config{Count: httplimit.CountFailures}).Wrap(takes(0))
		if answers := crowd(9, h); len(answers[http.StatusOK]) != 9 {
			t.Errorf("%v", answers)
		}
		if n := remaining(t, e, "rate"); n != 100 {
			t.Errorf("%d left, want all: nothing failed", n)
		}
	})
}

// One permit that is lost ended the renewal of all that a request holds.
func TestOthersAreRenewedBesideALostPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: busy, limit: 1 concurrent ttl 3s}\n  - {name: trial, limit: 5 concurrent ttl 3s, shadow: true}\n")
		h := middleware(t, e, nil).Wrap(takes(20 * time.Second))
		first := make(chan map[int][]time.Duration)
		go func() { first <- crowd(1, h) }()
		time.Sleep(500 * time.Millisecond)
		if err := e.Reset(t.Context(), "trial", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		if answers := crowd(1, h); len(answers[http.StatusTooManyRequests]) != 1 {
			t.Errorf("a second request passed while the first was served: %v", answers)
		}
		if answers := <-first; len(answers[http.StatusOK]) != 1 {
			t.Errorf("%v", answers)
		}
	})
}

// A rate that has nothing for half a minute was hidden by a permit that may be free in a moment.
func TestRefusalTellsOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: busy, limit: 1 concurrent ttl 60s}\n  - {name: rate, limit: 1/30s burst 1}\n")
		h := middleware(t, e, &httplimit.Config{Queue: httplimit.Queue{Length: 9, Wait: 10 * time.Second}}).Wrap(takes(20 * time.Second))
		done := make(chan map[int][]time.Duration)
		go func() { done <- crowd(1, h) }()
		time.Sleep(time.Second)
		answers := crowd(1, h)
		if took := answers[http.StatusTooManyRequests]; len(took) != 1 || took[0] != 0 {
			t.Errorf("%v: want it refused at once, since waiting is in vain", answers)
		}
		<-done
	})
}
