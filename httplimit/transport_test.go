package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// server answers requests in place of a network.
type server func(r *http.Request) *http.Response

func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s(r), nil }

// answer returns a response with headers, by name and value in turn.
func answer(status int, nameValue ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(nameValue); i += 2 {
		h.Add(nameValue[i], nameValue[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

func transport(tb testing.TB, cfg httplimit.TransportConfig) *httplimit.Transport {
	tb.Helper()
	tr, err := httplimit.NewTransport(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return tr
}

// sendTo sends a request and returns the status, and after how long there was an answer.
func sendTo(ctx context.Context, t *httplimit.Transport, url string) (int, time.Duration, error) {
	start := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		return 0, 0, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return 0, time.Since(start), err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, time.Since(start), nil
}

// What the other side says, as a table: the answer to the first request, and how long the second waits.
func TestPauses(t *testing.T) {
	const date = "Mon, 30 Nov 2026 12:00:00 GMT"
	for _, c := range []struct {
		name   string
		answer *http.Response
		want   time.Duration
	}{
		{"nothing is said", answer(200), 0},
		{"a refusal that says nothing", answer(429), 0},
		{"seconds", answer(429, "Retry-After", "13"), 13 * time.Second},
		{"seconds of a 503", answer(503, "Retry-After", "13"), 13 * time.Second},
		{"seconds of another status", answer(301, "Retry-After", "13"), 0},
		{"no seconds", answer(429, "Retry-After", "0"), 0},
		{"spaces", answer(429, "Retry-After", " 5 "), 5 * time.Second},
		{"a date", answer(429, "Date", date, "Retry-After", "Mon, 30 Nov 2026 12:00:30 GMT"), 30 * time.Second},
		{"a date of old", answer(429, "Date", date, "Retry-After", "Monday, 30-Nov-26 12:00:30 GMT"), 30 * time.Second},
		{"a date that is over", answer(429, "Date", date, "Retry-After", "Mon, 30 Nov 2026 11:00:00 GMT"), 0},
		{"a date by this clock", answer(429, "Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT"), 30 * time.Second}, // synctest's clock
		{"a negative number", answer(429, "Retry-After", "-5"), 0},
		{"a fraction", answer(429, "Retry-After", "1.5"), 0},
		{"junk", answer(429, "Retry-After", "soon"), 0},
		{"a number for ever", answer(429, "Retry-After", "99999999999999999999999"), time.Hour},
		{"a number that overflows", answer(429, "Retry-After", "9223372036854775807"), time.Hour},
		{"a year", answer(429, "Retry-After", "31536000"), time.Hour},
		{"a date in ages", answer(429, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), time.Hour},
		{"nothing is left", answer(200, "RateLimit", `"api";r=0;t=7`), 7 * time.Second},
		{"something is left", answer(200, "RateLimit", `"api";r=1;t=7`), 0},
		{"nothing is left, for no known time", answer(200, "RateLimit", `"api";r=0`), 0},
		{"of several", answer(200, "RateLimit", `"a";r=0;t=3, "b";r=5;t=60,"c";t=9;r=0;pk=:YQ==:`), 9 * time.Second},
		{"of several lines", answer(200, "RateLimit", `"a";r=0;t=3`, "RateLimit", `"b";r=0;t=4`), 4 * time.Second},
		{"Retry-After goes before", answer(429, "RateLimit", `"a";r=0;t=3`, "Retry-After", "5"), 5 * time.Second},
		{"RateLimit of a refusal", answer(429, "RateLimit", `"a";r=0;t=3`), 3 * time.Second},
		{"from a cache", answer(200, "Age", "10", "RateLimit", `"a";r=0;t=3`), 0},
		{"malformed", answer(200, "RateLimit", `"a";r=0;t=3,`), 0},
		{"malformed in part", answer(200, "RateLimit", `"a";r=0;t=3, "b`), 0},
		{"of another type", answer(200, "RateLimit", `"a";r=0;t=3.5`), 0},
		{"negative", answer(200, "RateLimit", `"a";r=0;t=-3`), 0},
		{"the form of draft 7", answer(200, "RateLimit", `limit=10, remaining=0, reset=3`), 0},
		{"an unknown parameter", answer(200, "RateLimit", `"a";x;r=0;y="\"";t=3;z=?0;d=@1`), 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				tr := transport(t, httplimit.TransportConfig{MaxWait: 2 * time.Hour, Base: server(func(*http.Request) *http.Response {
					if first {
						first = false
						return c.answer
					}
					return answer(200)
				})})
				status, d, err := sendTo(t.Context(), tr, "http://api.example.com/")
				if status != c.answer.StatusCode || d != 0 || err != nil {
					t.Fatalf("the first: %d after %v, %v", status, d, err)
				}
				if _, d, err := sendTo(t.Context(), tr, "http://other.example.com/"); d != 0 || err != nil {
					t.Errorf("another host waits for %v, %v", d, err)
				}
				if status, d, err := sendTo(t.Context(), tr, "http://API.example.com:80/other"); status != 200 || d != c.want || err != nil {
					t.Errorf("the second: %d after %v, %v; want it after %v", status, d, err, c.want)
				}
			})
		})
	}
}

// What would have to wait too long fails at once, with what a caller needs to know, and with its body closed.
func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      httplimit.TransportConfig
		deadline time.Duration
	}{
		"told to refuse":         {httplimit.TransportConfig{Refuse: true}, 0},
		"longer than MaxWait":    {httplimit.TransportConfig{MaxWait: 10 * time.Second}, 0},
		"longer than the caller": {httplimit.TransportConfig{}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				c.cfg.Base = server(func(*http.Request) *http.Response { sent++; return answer(429, "Retry-After", "30") })
				tr := transport(t, c.cfg)
				ctx := t.Context()
				if _, _, err := sendTo(ctx, tr, "https://api.example.com:443/"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				body := &closed{Reader: strings.NewReader("body")}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/", body)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err = tr.RoundTrip(r)
				limited, ok := errors.AsType[*httplimit.LimitedError](err)
				if !ok || limited.RetryAfter != 25*time.Second || !limited.Asked || limited.Host != "api.example.com" || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				if time.Since(start) != 0 || sent != 1 || !body.closed {
					t.Errorf("after %v, %d were sent, the body is closed: %v", time.Since(start), sent, body.closed)
				}
			})
		})
	}
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error { c.closed = true; return nil }

// A limit of one's own spreads requests evenly, in their order, and never sends one twice.
func TestOwnLimit(t *testing.T) {
	for _, limit := range []string{"10/s burst 1", "10/s leaky-bucket", "10/s leaky-bucket queue 100"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var mu sync.Mutex
				var sent []time.Duration
				tr := transport(t, httplimit.TransportConfig{Limiter: limiter(t, limit), Base: server(func(*http.Request) *http.Response {
					mu.Lock()
					defer mu.Unlock()
					sent = append(sent, time.Since(start))
					return answer(500)
				})})
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() {
						if status, _, err := sendTo(t.Context(), tr, "http://api.example.com/"); status != 500 || err != nil {
							t.Error(status, err)
						}
					})
				}
				group.Wait()
				if len(sent) != 50 {
					t.Fatalf("%d were sent", len(sent))
				}
				for i, d := range sent {
					if d != time.Duration(i)*100*time.Millisecond {
						t.Errorf("number %d was sent after %v", i, d)
					}
				}
			})
		})
	}
}

// What the limit of one's own refuses is told, and nothing is charged for it.
func TestOwnLimitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, "1/min")
		tr := transport(t, httplimit.TransportConfig{Limiter: l, MaxWait: 10 * time.Second, Base: server(func(*http.Request) *http.Response { return answer(200) })})
		if _, _, err := sendTo(t.Context(), tr, "http://api.example.com/"); err != nil {
			t.Fatal(err)
		}
		_, _, err := sendTo(t.Context(), tr, "http://api.example.com/")
		limited, ok := errors.AsType[*httplimit.LimitedError](err)
		if !ok || limited.Asked || limited.RetryAfter != time.Minute {
			t.Errorf("%v", err)
		}
		// One that gives up while it waits gives back.
		time.Sleep(55 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, d, err := sendTo(ctx, tr, "http://api.example.com/"); !errors.Is(err, context.Canceled) || d != time.Second {
			t.Errorf("after %v: %v", d, err)
		}
		if _, d, err := sendTo(t.Context(), tr, "http://api.example.com/"); err != nil || d != 4*time.Second {
			t.Errorf("the next after %v: %v", d, err)
		}
		none := transport(t, httplimit.TransportConfig{Limiter: limiter(t, "none")})
		if _, _, err := sendTo(t.Context(), none, "http://api.example.com/"); !errors.Is(err, tidegate.ErrNever) {
			t.Errorf("never: %v", err)
		}
		log := transport(t, httplimit.TransportConfig{Limiter: limiter(t, "1/min sliding-log"), Refuse: true, Base: server(func(*http.Request) *http.Response { return answer(200) })})
		if _, _, err := sendTo(t.Context(), log, "http://api.example.com/"); err != nil {
			t.Error(err)
		}
		if _, _, err := sendTo(t.Context(), log, "http://api.example.com/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a log: %v", err)
		}
	})
}

// A limiter whose store failed lets requests fail, or go, as the config says.
func TestOwnLimitFails(t *testing.T) {
	store := broken{}
	b, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{false, true} {
		tr := transport(t, httplimit.TransportConfig{Limiter: b, FailOpen: open, Base: server(func(*http.Request) *http.Response { return answer(200) })})
		if status, _, err := sendTo(t.Context(), tr, "http://api.example.com/"); open != (err == nil && status == 200) || !open && !errors.Is(err, tidegate.ErrStore) {
			t.Errorf("open: %v, %d, %v", open, status, err)
		}
	}
}

// broken is a store that fails.
type broken struct{ tidegate.Store }

func (broken) Take(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error) {
	return nil, &tidegate.StoreError{Op: "take", Err: errors.New("away")}
}

// A pause that comes while a request waits for its turn is kept, too; a later one that is shorter does not shorten it.
func TestPauseComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []*http.Response{answer(200), answer(429, "Retry-After", "20"), answer(429, "Retry-After", "1"), answer(200)}
		var mu sync.Mutex
		n := 0
		tr := transport(t, httplimit.TransportConfig{Limiter: limiter(t, "1/s"), Base: server(func(*http.Request) *http.Response {
			mu.Lock()
			a := answers[n]
			n++
			second := n == 2
			mu.Unlock()
			if second { // a slow one, during which the third is sent
				time.Sleep(1500 * time.Millisecond)
			}
			return a
		})})
		var group sync.WaitGroup
		var last time.Duration
		for i := range 4 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, d, err := sendTo(t.Context(), tr, "http://api.example.com/")
				if err != nil {
					t.Error(err)
				}
				if i == 3 {
					last = d
				}
			})
		}
		group.Wait()
		if last < 20*time.Second {
			t.Errorf("the last was sent after %v", last)
		}
	})
}

// However many hosts there are, the memory is bounded, and the longest pauses are those that are kept.
func TestPausesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, httplimit.TransportConfig{Refuse: true, MaxHosts: 100, Base: server(func(r *http.Request) *http.Response {
			return answer(429, "Retry-After", r.Header.Get("Pause"))
		})})
		send := func(host, pause string) error {
			r := httptest.NewRequest(http.MethodGet, "http://"+host+"/", nil)
			r.Header.Set("Pause", pause)
			resp, err := tr.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		if err := send("long.example.com", "3000"); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 20_000 {
			if err := send("host"+strconv.Itoa(i)+".example.com", "10"); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if after.HeapAlloc > before.HeapAlloc+256<<10 {
			t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
		}
		if err := send("long.example.com", "1"); err == nil {
			t.Error("the longest pause was forgotten")
		}
		if err := send("host19999.example.com", "1"); err == nil {
			t.Error("the last pause was forgotten")
		}
		if err := send("host1.example.com", "1"); err != nil {
			t.Errorf("more than 100 are kept: %v", err)
		}
	})
}

// Both sides of this package understand each other: who goes through the transport is never refused twice.
func TestTransportKeepsToTheMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middleware(t, limiter(t, "5/s burst 3"), nil).Wrap(http.HandlerFunc(ok))
		refused := 0
		tr := transport(t, httplimit.TransportConfig{Base: server(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			r.RemoteAddr = "203.0.113.1:1"
			h.ServeHTTP(w, r)
			if w.Code == http.StatusTooManyRequests {
				refused++
			}
			return w.Result()
		})})
		for range 50 {
			if status, _, err := sendTo(t.Context(), tr, "http://api.example.com/"); status != 200 || err != nil {
				t.Fatal(status, err)
			}
		}
		if refused != 0 {
			t.Errorf("%d were refused, though RateLimit had told that nothing is left", refused)
		}
	})
}
