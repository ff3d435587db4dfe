package httplimittest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// Service is what an adapter is to serve.
type Service struct {
	// Decider and Config are for the middleware, which goes around all routes and what is no route.
	Decider tidegate.Decider
	Config  *httplimit.Config
	// Routes are the paths that are served, with any method; no others are. They have no parameters.
	Routes []string
	// Serve is the handler: it returns the response's status, and its body, which is text/plain. The context is the one that
	// the framework hands to handlers.
	Serve func(ctx context.Context, path string) (status int, body string)
}

// Start serves on a free port of the loopback interface until the test ends, and returns the URL, without a path.
type Start func(t *testing.T, s Service) (url string)

// Run runs the table against an adapter.
func Run(t *testing.T, start Start) {
	t.Helper()
	for _, c := range table() {
		t.Run(c.name, func(t *testing.T) { c.run(t, start) })
	}
	t.Run("a permit is held until the response is complete", func(t *testing.T) { permits(t, start) })
}

// step is a request and what it must be answered.
type step struct {
	method string // default: GET
	path   string // with the query; default: /ok
	header http.Header
	status int // default: 200
	// fields are the headers that must be there; of those that this package is about, all others must not be.
	fields map[string]string
	body   string // default: not looked at
}

type testCase struct {
	name    string
	limit   string // of rule "api", in a store that stands still
	keyBy   string
	decider tidegate.Decider // in place of a limit
	config  httplimit.Config
	steps   []step
}

// watched are the headers that must be there only where they are expected.
var watched = []string{
	"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Cache-Control",
}

func (c *testCase) run(t *testing.T, start Start) {
	t.Helper()
	decider := c.decider
	if decider == nil {
		decider = limiter(t, c.limit, c.keyBy)
	}
	url := start(t, service(decider, &c.config, nil))
	for i, s := range c.steps {
		s.check(t, "request "+strconv.Itoa(i+1), send(t, url, &s))
	}
}

// limiter returns one of rule "api" whose clock stands still.
func limiter(t *testing.T, limit, keyBy string) *tidegate.Limiter {
	t.Helper()
	at := time.Date(2100, 1, 4, 0, 0, 0, 0, time.UTC)
	store := memstore.New(&memstore.Config{Now: func() time.Time { return at }})
	t.Cleanup(func() { _ = store.Close() })
	parsed, err := tidegate.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tidegate.New(store, parsed, &tidegate.Config{Rule: "api", KeyBy: keyBy})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// service is what the table's requests are for; a request for /hold is in it until hold returns.
func service(decider tidegate.Decider, cfg *httplimit.Config, hold func(ctx context.Context)) Service {
	return Service{
		Decider: decider,
		Config:  cfg,
		Routes:  []string{"/ok", "/other", "/left", "/hold", "/status/201", "/status/401", "/status/404", "/status/500"},
		Serve: func(ctx context.Context, path string) (int, string) {
			switch path {
			case "/ok", "/other":
				return http.StatusOK, "ok"
			case "/left":
				d, ok := httplimit.FromContext(ctx)
				if !ok {
					return http.StatusOK, "no decision"
				}
				if d.Remaining == tidegate.NoLimit {
					return http.StatusOK, "no limit by " + d.Rule
				}
				return http.StatusOK, strconv.FormatInt(d.Remaining, 10) + " left of " + d.Rule
			case "/hold":
				hold(ctx)
				return http.StatusOK, "held"
			}
			if status, err := strconv.Atoi(strings.TrimPrefix(path, "/status/")); err == nil {
				return status, "as asked"
			}
			return http.StatusNotFound, "no such path"
		},
	}
}

// answer is what a client sees.
type answer struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, url string, s *step) answer {
	t.Helper()
	a, err := ask(t.Context(), url, s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ask(ctx context.Context, url string, s *step) (answer, error) {
	method, path := s.method, s.path
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/ok"
	}
	r, err := http.NewRequestWithContext(ctx, method, url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for name, lines := range s.header {
		r.Header[http.CanonicalHeaderKey(name)] = lines
		if name == "Host" {
			r.Host = lines[0]
			r.Header.Del(name)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	resp, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}, nil
}

func (s *step) check(t *testing.T, name string, a answer) {
	t.Helper()
	want := s.status
	if want == 0 {
		want = http.StatusOK
	}
	if a.status != want {
		t.Errorf("%s: status %d, want %d: %s", name, a.status, want, a.body)
	}
	if s.body != "" && a.body != s.body {
		t.Errorf("%s: body\n%s\nwant\n%s", name, a.body, s.body)
	}
	if s.method == http.MethodHead && a.body != "" {
		t.Errorf("%s: a HEAD has the body %q", name, a.body)
	}
	for field, value := range s.fields {
		if got := a.header.Values(field); len(got) != 1 || got[0] != value {
			t.Errorf("%s: %s is %q, want %q", name, field, got, value)
		}
	}
	for _, field := range watched {
		if _, ok := s.fields[field]; !ok && a.header.Get(field) != "" {
			t.Errorf("%s: there is %s: %q, and must not be", name, field, a.header.Values(field))
		}
	}
}

// permits: two places, two requests in flight, a third is refused, and one more passes when the first is complete.
func permits(t *testing.T, start Start) {
	t.Helper()
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	url := start(t, service(limiter(t, "2 concurrent", ""), &httplimit.Config{}, func(context.Context) {
		entered <- struct{}{}
		<-leave
	}))
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			a, err := ask(t.Context(), url, &step{path: "/hold"})
			if err != nil {
				a.body = err.Error()
			}
			answers <- a
		}()
		<-entered
	}
	refused := step{status: http.StatusTooManyRequests, fields: map[string]string{
		"RateLimit-Policy": `"api";q=2;qu="concurrent-requests"`, "RateLimit": `"api";r=0;t=1`, "Retry-After": "1",
		"Cache-Control": "no-store", "Content-Type": httplimit.ContentType,
	}}
	refused.check(t, "a third", send(t, url, &refused))
	close(leave)
	for range 2 {
		a := <-answers
		if a.status != http.StatusOK || a.body != "held" {
			t.Errorf("one that was let in: %d %q", a.status, a.body)
		}
	}
	// The place is free when the response is complete, or a moment later: its last byte may arrive before.
	deadline := time.Now().Add(5 * time.Second)
	for {
		a := send(t, url, &step{})
		if a.status == http.StatusOK {
			if got := a.header.Get("RateLimit"); !strings.HasPrefix(got, `"api";r=1`) && !strings.HasPrefix(got, `"api";r=0`) {
				t.Errorf("after the release: RateLimit %q", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after both are complete: %d %s", a.status, a.body)
		}
	}
}
