package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
)

// engine returns one of the rules, as a file has them in its list, whose store lives as long as the test.
func engine(tb testing.TB, list string) *rules.Engine {
	tb.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+list))
	if err != nil {
		tb.Fatal(err)
	}
	store := memstore.New(nil)
	tb.Cleanup(func() { _ = store.Close() })
	e, err := rules.New(store, set, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// remaining is what is left of a rule without a key.
func remaining(tb testing.TB, e *rules.Engine, rule string) int64 {
	tb.Helper()
	d, err := e.TakeKey(context.Background(), rule, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// A rule of permits in an engine made every request a 503. A request holds one until its response is complete, and is charged by the
// other rules only if it gets it.
func TestEngineOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: rate, limit: 100/day}\n  - {name: busy, limit: 2 concurrent ttl 3s}\n")
		h := middleware(t, e, nil).Wrap(takes(time.Minute)) // far longer than the permit's time: it is renewed
		answers := crowd(5, h)
		if len(answers[http.StatusOK]) != 2 || len(answers[http.StatusTooManyRequests]) != 3 {
			t.Errorf("%v", answers)
		}
		if n := remaining(t, e, "rate"); n != 98 {
			t.Errorf("%d left of the rate, want 98: those that were refused are charged nothing", n)
		}
		if n := remaining(t, e, "busy"); n != 2 {
			t.Errorf("%d permits are back, want 2", n)
		}
	})
}

// Count works over an engine, by all of its rules.
func TestEngineCounts(t *testing.T) {
	e := engine(t, "  - {name: one, limit: 5/h}\n  - {name: other, limit: 20/h, cost: 3}\n  - {name: busy, limit: 1 concurrent}\n")
	m := middleware(t, e, &httplimit.Config{Count: httplimit.CountFailures})
	answers := func(status int) http.Handler {
		return m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	}
	for range 9 {
		if w := get(answers(http.StatusOK)); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
	}
	for range 2 {
		get(answers(http.StatusUnauthorized))
	}
	if one, other, busy := remaining(t, e, "one"), remaining(t, e, "other"), remaining(t, e, "busy"); one != 3 || other != 14 || busy != 1 {
		t.Errorf("%d, %d and %d left after 9 successes and 2 failures, want 3, 14 and 1", one, other, busy)
	}
}

// Requests wait for what comes with time, and for permits, in one queue.
func TestEngineQueues(t *testing.T) {
	for name, list := range map[string]string{
		"a rate":           "  - {name: api, limit: 1/s}\n",
		"permits":          "  - {name: api, limit: 1 concurrent}\n",
		"permits of a key": "  - {name: api, key: [ip], limit: 1 concurrent}\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := middleware(t, engine(t, list), &httplimit.Config{Queue: httplimit.Queue{Length: 3, Wait: 10 * time.Second}})
				answers := crowd(10, m.Wrap(takes(time.Second)))
				if len(answers[http.StatusOK]) != 4 {
					t.Fatalf("%v", answers)
				}
				for i, took := range answers[http.StatusOK] {
					if want := time.Duration(1+i) * time.Second; took != want {
						t.Errorf("number %d was served after %v, want %v", i, took, want)
					}
				}
				for _, took := range answers[http.StatusTooManyRequests] {
					if took != 0 {
						t.Errorf("one was refused after %v, not at once", took)
					}
				}
				if m.Waiting() != 0 {
					t.Errorf("%d wait", m.Waiting())
				}
			})
		})
	}
}

// Who waits in vain for a permit of an engine is told when its time is up, and at once when the queue closes or it leaves.
func TestEngineQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: api, limit: 1 concurrent}\n")
		m := middleware(t, e, &httplimit.Config{Queue: httplimit.Queue{Length: 3, Wait: 5 * time.Second}})
		h := m.Wrap(takes(time.Minute))
		go get(h)
		synctest.Wait()
		start := time.Now()
		if w := get(h); w.Code != http.StatusTooManyRequests || time.Since(start) != 5*time.Second || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%d after %v: %v", w.Code, time.Since(start), w.Header())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if w := getWith(ctx, h); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one who left: %d", w.Code)
		}
		time.AfterFunc(time.Second, func() { _ = m.Close() })
		start = time.Now()
		if w := get(h); w.Code != http.StatusServiceUnavailable || time.Since(start) != time.Second {
			t.Errorf("at the end: %d after %v", w.Code, time.Since(start))
		}
		time.Sleep(time.Minute)
		if n := remaining(t, e, "api"); n != 1 {
			t.Errorf("%d permits are left", n)
		}
	})
}

// The fields of an engine tell what those of a limiter do: also the window, and when there is a token again.
func TestEngineTellsTheWindow(t *testing.T) {
	for _, c := range []struct{ limit, policy, left, then string }{
		{"10/s burst 20", `"api";q=20;w=2`, `"api";r=19;t=1`, `"api";r=18;t=1`},
		{"2/min", `"api";q=2;w=60`, `"api";r=1;t=30`, `"api";r=0;t=30`},
		{"5/h fixed-window", `"api";q=5;w=3600`, "", ""},
		{"5/month", `"api";q=5`, "", ""},
		{"2 concurrent", `"api";q=2;qu="concurrent-requests"`, `"api";r=1;t=1`, `"api";r=1;t=1`},
	} {
		t.Run(c.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := middleware(t, engine(t, "  - {name: api, limit: "+c.limit+"}\n"), nil).Wrap(http.HandlerFunc(ok))
				for _, want := range []string{c.left, c.then} {
					header := get(h).Header()
					if got := header.Get("RateLimit-Policy"); got != c.policy {
						t.Errorf("RateLimit-Policy %s, want %s", got, c.policy)
					}
					if got := header.Get("RateLimit"); want != "" && got != want {
						t.Errorf("RateLimit %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// A rule whose overrides have limits of one capacity leaves the window out rather than tell another's.
func TestEngineTellsNoOtherWindow(t *testing.T) {
	e := engine(t, `  - name: api
    key: [header.user]
    limit: 10/s burst 20
    overrides:
      - {match: {header.user: a}, limit: 10/min burst 20}
      - {match: {header.user: b}, limit: 30/min}
`)
	h := middleware(t, e, nil).Wrap(http.HandlerFunc(ok))
	for user, want := range map[string]string{"a": `"api";q=20`, "c": `"api";q=20`, "b": `"api";q=30;w=60`} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("User", user)
		h.ServeHTTP(w, r)
		if got := w.Header().Get("RateLimit-Policy"); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
}

// What is charged, held and waited for is one take, whatever the config asks for: there is no order in which a decider that can do
// several things is asked for them.
func TestEngineDoesAllInOneTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "  - {name: rate, limit: 1/s}\n  - {name: busy, limit: 2 concurrent}\n")
		m := middleware(t, e, &httplimit.Config{Count: httplimit.CountFailures, Queue: httplimit.Queue{Length: 5, Wait: 5 * time.Second}})
		h := m.Wrap(takes(10 * time.Second))
		answers := crowd(3, h)
		// The first is served at once, the second a second later; the third finds both places taken until its time is up.
		if got := answers[http.StatusOK]; len(got) != 2 || got[0] != 10*time.Second || got[1] != 11*time.Second {
			t.Errorf("served: %v", got)
		}
		if got := answers[http.StatusTooManyRequests]; len(got) != 1 || got[0] != 5*time.Second {
			t.Errorf("refused: %v", got)
		}
		if rate, busy := remaining(t, e, "rate"), remaining(t, e, "busy"); rate != 1 || busy != 2 {
			t.Errorf("%d and %d left, want all", rate, busy)
		}
	})
}

// holder decides by functions, as a holder of one's own does.
type holder struct {
	tidegate.Decider

	asked []tidegate.Terms
}

func (h *holder) HoldFor(_ context.Context, _ tidegate.Attributes, t tidegate.Terms) (tidegate.Decision, tidegate.Hold, error) {
	h.asked = append(h.asked, t)
	return tidegate.Decision{Allowed: true, Limit: 1}, nil, nil
}

// A holder is asked for what the config needs, and never by Decide.
func TestHolderIsAskedOnce(t *testing.T) {
	refuses := decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
		t.Error("Decide")
		return tidegate.Decision{}, nil
	})
	for name, c := range map[string]struct {
		cfg  httplimit.Config
		want tidegate.Terms
	}{
		"nothing": {httplimit.Config{}, tidegate.Terms{Cost: 1}},
		"a cost":  {httplimit.Config{Cost: func(*http.Request) int64 { return 7 }}, tidegate.Terms{Cost: 7}},
		"a count": {httplimit.Config{Count: httplimit.CountSuccesses, SettleWithin: time.Minute}, tidegate.Terms{Cost: 1, CancelWithin: time.Minute}},
		"a queue": {httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: 1}}, tidegate.Terms{Cost: 1}}, // it need not wait
	} {
		t.Run(name, func(t *testing.T) {
			d := &holder{Decider: refuses}
			if w := get(middleware(t, d, &c.cfg).Wrap(http.HandlerFunc(ok))); w.Code != http.StatusOK {
				t.Error(w.Code)
			}
			if len(d.asked) != 1 || d.asked[0] != c.want {
				t.Errorf("asked %+v, want once %+v", d.asked, c.want)
			}
		})
	}
}
