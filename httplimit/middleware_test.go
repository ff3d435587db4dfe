package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// A store that is away is told once when it goes and once when it comes, whatever is sent meanwhile; a client that is gone
// is no failure of the store.
func TestFailureIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	var failure error
	d := decider(func(ctx context.Context, _ tidegate.Attributes, _ int64) (tidegate.Decision, error) {
		if ctx.Err() != nil {
			return tidegate.Decision{}, ctx.Err()
		}
		return tidegate.Decision{Allowed: true, Limit: 1}, failure
	})
	h := middleware(t, d, &httplimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Wrap(http.HandlerFunc(ok))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if w := getWith(gone, h); w.Code != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("%d: %s", w.Code, log.String())
	}
	for range 2 {
		log.Reset()
		failure = &tidegate.StoreError{Op: "take", Err: errors.New("refused")}
		for range 3 {
			if w := get(h); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "refused") {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		}
		failure = nil
		for range 3 {
			get(h)
		}
		if strings.Count(log.String(), "\n") != 2 || !strings.Contains(log.String(), "decisions fail") || !strings.Contains(log.String(), "made again") {
			t.Errorf("the log says:\n%s", log.String())
		}
	}
}

// One middleware within another: both tell, the refusal is of the one that refuses.
func TestTwoMiddlewares(t *testing.T) {
	named := func(rule string, allowed bool) tidegate.Decider {
		return decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
			return tidegate.Decision{Allowed: allowed, Limit: 9, Remaining: 5, Rule: rule, RetryAfter: 1}, nil
		})
	}
	for _, allowed := range []bool{true, false} {
		var rule string
		inner := middleware(t, named("inner", allowed), &httplimit.Config{Legacy: httplimit.LegacySeconds}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, _ := httplimit.FromContext(r.Context())
			rule = d.Rule
		}))
		w := get(middleware(t, named("outer", true), &httplimit.Config{Legacy: httplimit.LegacySeconds}).Wrap(inner))
		if got := w.Header().Values("RateLimit-Policy"); len(got) != 2 || got[0] != `"outer";q=9` || got[1] != `"inner";q=9` {
			t.Errorf("RateLimit-Policy %q", got)
		}
		if got := w.Header().Values("RateLimit"); len(got) != 2 {
			t.Errorf("RateLimit %q", got)
		}
		if got := w.Header().Values("X-RateLimit-Limit"); len(got) != 1 {
			t.Errorf("X-RateLimit-Limit %q", got)
		}
		if allowed && rule != "inner" {
			t.Errorf("the context has the decision of %q", rule)
		}
		if !allowed && (w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"violated-policies":["inner"]`)) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// What an outer handler has set is there, whatever the answer.
func TestOuterHeadersStay(t *testing.T) {
	for name, d := range map[string]tidegate.Decider{
		"passes": limiter(t, "1/h"), "is refused": limiter(t, "none"),
		"is not decided": decider(func(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
			return tidegate.Decision{}, tidegate.ErrClosed
		}),
	} {
		t.Run(name, func(t *testing.T) {
			limited := middleware(t, d, nil).Wrap(http.HandlerFunc(ok))
			w := get(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Access-Control-Allow-Origin", "https://example.com")
				w.Header().Add("Vary", "Origin")
				limited.ServeHTTP(w, r)
			}))
			if w.Header().Get("Access-Control-Allow-Origin") != "https://example.com" || w.Header().Get("Vary") != "Origin" {
				t.Errorf("%v", w.Header())
			}
		})
	}
}

// An answer of one's own has all that the standard one has.
func TestRespond(t *testing.T) {
	h := middleware(t, limiter(t, "none"), &httplimit.Config{
		Respond: func(w http.ResponseWriter, r *http.Request, a *httplimit.Answer) {
			w.WriteHeader(a.Status)
			_, _ = io.WriteString(w, r.URL.Path+": "+a.Decision.Rule)
		},
	}).Wrap(nil)
	w := get(h)
	if w.Code != http.StatusTooManyRequests || w.Body.String() != "/: api" || w.Header().Get("RateLimit") != `"api";r=0` {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// The pattern is known within a mux, and around one that is asked.
func TestPattern(t *testing.T) {
	var pattern string
	d := decider(func(_ context.Context, a tidegate.Attributes, _ int64) (tidegate.Decision, error) {
		pattern, _ = a.Attribute("pattern")
		return tidegate.Combine(nil, nil), nil
	})
	request := func(h http.Handler) string {
		pattern = "none"
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/items/7", nil))
		return pattern
	}
	inside := http.NewServeMux()
	inside.Handle("GET /items/{id}", middleware(t, d, nil).Wrap(http.HandlerFunc(ok)))
	if got := request(inside); got != "GET /items/{id}" {
		t.Errorf("within the mux: %q", got)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", ok)
	if got := request(middleware(t, d, nil).Wrap(mux)); got != "" {
		t.Errorf("around it: %q", got)
	}
	around := middleware(t, d, &httplimit.Config{Pattern: func(r *http.Request) string { _, p := mux.Handler(r); return p }})
	if got := request(around.Wrap(mux)); got != "GET /items/{id}" {
		t.Errorf("around it, and asking: %q", got)
	}
}

// What the attributes are, of requests that are odd.
func TestAttributes(t *testing.T) {
	var got string
	var has bool
	ask := func(name string, change func(r *http.Request)) (string, bool) {
		d := decider(func(_ context.Context, a tidegate.Attributes, _ int64) (tidegate.Decision, error) {
			got, has = a.Attribute(name)
			return tidegate.Combine(nil, nil), nil
		})
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
		change(r)
		middleware(t, d, nil).Wrap(http.HandlerFunc(ok)).ServeHTTP(httptest.NewRecorder(), r)
		return got, has
	}
	for _, c := range []struct {
		name   string
		change func(r *http.Request)
		want   string
		has    bool
	}{
		{"path", func(r *http.Request) { r.URL.Path = "" }, "/", true},
		{"path", func(r *http.Request) { r.URL.Path = "*" }, "*", true},
		{"path", func(r *http.Request) { r.URL.Path = "a/../b/" }, "/b", true},
		{"path", func(r *http.Request) { r.URL.Path = "/../../etc//passwd/." }, "/etc/passwd", true},
		{"method", func(r *http.Request) { r.Method = "" }, "GET", true},
		{"method", func(r *http.Request) { r.Method = "HEAD" }, "GET", true},
		{"host", func(r *http.Request) { r.Host = "[2001:DB8::1]:8080" }, "2001:db8::1", true},
		{"host", func(r *http.Request) { r.Host = "Example.COM." }, "example.com", true},
		{"host", func(r *http.Request) { r.Host = "" }, "", true},
		{"header.host", func(r *http.Request) { r.Host = "example.com:80" }, "example.com:80", true},
		{"header.x-empty", func(r *http.Request) { r.Header.Set("X-Empty", "") }, "", true},
		{"header.x-none", func(*http.Request) {}, "", false},
		{"query.a", func(r *http.Request) { r.URL.RawQuery = "a" }, "", true},
		{"query.a", func(r *http.Request) { r.URL.RawQuery = "a;b=1&a=2" }, "2", true},
		{"query.a", func(r *http.Request) { r.URL.RawQuery = "a=%zz&a=ok" }, "ok", true},
		{"query.a", func(r *http.Request) { r.URL.RawQuery = "%zz=1&&=&b=%" }, "", false},
		{"query.", func(r *http.Request) { r.URL.RawQuery = "=x" }, "x", true},
		{"cookie.a", func(r *http.Request) { r.Header["Cookie"] = []string{"b=1", ` a="quoted" ; a=2`} }, "quoted", true},
		{"cookie.a", func(r *http.Request) { r.Header["Cookie"] = []string{";; =x; ab=1; a"} }, "", false},
		{"ip", func(r *http.Request) { r.RemoteAddr = "@" }, "", false},
		{"other", func(*http.Request) {}, "", false},
		{"other.kind", func(*http.Request) {}, "", false},
	} {
		if got, has := ask(c.name, c.change); got != c.want || has != c.has {
			t.Errorf("%s is %q, %v; want %q, %v", c.name, got, has, c.want, c.has)
		}
	}
}
