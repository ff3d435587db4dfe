package httplimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// A response that takes longer than a permit's time keeps its place, and gives it back when it is complete.
func TestPermitIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "1 concurrent ttl 3s"), nil)
		slow, quick := m.Wrap(takes(time.Minute)), m.Wrap(http.HandlerFunc(ok))
		go get(slow)
		for range 59 {
			time.Sleep(time.Second)
			if w := get(quick); w.Code != http.StatusTooManyRequests {
				t.Fatalf("another was let in: %d", w.Code)
			}
		}
		time.Sleep(2 * time.Second)
		if w := get(quick); w.Code != http.StatusOK {
			t.Errorf("after the response: %d", w.Code)
		}
	})
}

// A handler that panics gives its place back.
func TestPermitIsReleasedAfterAPanic(t *testing.T) {
	m := middleware(t, limiter(t, "1 concurrent"), nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the server")
			}
		}()
		get(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("handler") })))
	}()
	if w := get(m.Wrap(http.HandlerFunc(ok))); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
}

// So does one whose client is gone.
func TestPermitIsReleasedWhenTheClientIsGone(t *testing.T) {
	m := middleware(t, limiter(t, "1 concurrent"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	getWith(ctx, m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })))
	if w := get(m.Wrap(http.HandlerFunc(ok))); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
}

// forgetful is a limit of permits that expire, whatever is done.
type forgetful struct{ tidegate.Decider }

func (f forgetful) HoldFor(context.Context, tidegate.Attributes, tidegate.Terms) (tidegate.Decision, tidegate.Hold, error) {
	return tidegate.Decision{Allowed: true, Limit: 1, Rule: "api"}, f, nil
}
func (forgetful) TTL() time.Duration            { return time.Minute }
func (forgetful) Renew(context.Context) error   { return tidegate.ErrUnknownID }
func (forgetful) Release(context.Context) error { return tidegate.ErrUnknownID }
func (forgetful) Cancel(context.Context) error  { return tidegate.ErrUnknownID }

// A place that was lost is told once, and the response goes on.
func TestLostPermitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := middleware(t, forgetful{limiter(t, "1/s")}, &httplimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if w := get(m.Wrap(takes(time.Hour))); w.Code != http.StatusOK {
			t.Error(w.Code)
		}
		if strings.Count(log.String(), "expired before") != 1 {
			t.Error(log.String())
		}
	})
}

// A limit that becomes one of permits, and back again, is kept as it is at the time.
func TestLimitBecomesOneOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, "1/h")
		m := middleware(t, l, nil)
		h := m.Wrap(takes(time.Second))
		get(h)
		if err := l.SetLimit(t.Context(), tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}); err != nil {
			t.Fatal(err)
		}
		answers := crowd(2, h)
		if len(answers[http.StatusOK]) != 1 || len(answers[http.StatusTooManyRequests]) != 1 {
			t.Errorf("%v", answers)
		}
		if w := get(h); w.Code != http.StatusOK {
			t.Errorf("when the place is free again: %d", w.Code)
		}
	})
}
