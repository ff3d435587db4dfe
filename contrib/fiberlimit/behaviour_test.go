package fiberlimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/fiberlimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// newLimiter returns a limiter by the attribute.
func newLimiter(t *testing.T, limit tidegate.Limit, keyBy string) *tidegate.Limiter {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	l, err := tidegate.New(store, limit, &tidegate.Config{KeyBy: keyBy})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newApp returns one with the limits, which recovers from panics.
func newApp(t *testing.T, d tidegate.Decider, cfg *httplimit.Config) *fiber.App {
	t.Helper()
	limits, err := fiberlimit.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New()
	app.Use(recovery.New(), limits)
	return app
}

func wantStatus(t *testing.T, app *fiber.App, r *http.Request, want int) {
	t.Helper()
	resp, err := app.Test(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s %s: %d, want %d", r.Method, r.URL, resp.StatusCode, want)
	}
}

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func nothing(fiber.Ctx) error { return nil }

// The pattern is the route, so that all items are one key, also for a middleware that runs before fiber has chosen it; what
// is no route has none, and is not limited by it.
func TestPattern(t *testing.T) {
	once := tidegate.Limit{Rate: 2, Per: time.Hour}
	app := newApp(t, newLimiter(t, once, "pattern"), nil)
	app.Get("/items/:id", nothing)
	app.Get("/other", nothing)
	app.Get("/", nothing)
	wantStatus(t, app, get("/items/1"), http.StatusOK)
	wantStatus(t, app, get("/items/2"), http.StatusOK)
	wantStatus(t, app, get("/items/3"), http.StatusTooManyRequests)
	wantStatus(t, app, get("/other"), http.StatusOK)
	wantStatus(t, app, get("/"), http.StatusOK)
	for range 3 {
		wantStatus(t, app, get("/nowhere"), http.StatusNotFound)
	}

	limits, err := fiberlimit.New(newLimiter(t, once, "pattern"), nil)
	if err != nil {
		t.Fatal(err)
	}
	app = fiber.New()
	app.Group("/api").Get("/items/:id", limits, nothing)
	app.Post("/api/items/:id", nothing)
	wantStatus(t, app, get("/api/items/1"), http.StatusOK)
	wantStatus(t, app, get("/api/items/2"), http.StatusOK)
	wantStatus(t, app, get("/api/items/3"), http.StatusTooManyRequests)
	wantStatus(t, app, httptest.NewRequest(http.MethodPost, "/api/items/3", nil), http.StatusOK)
}

// A handler that panics has failed, and gives its permit back.
func TestPanic(t *testing.T) {
	fails := func(fiber.Ctx) error { panic("failed") }
	app := newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "method"), nil)
	app.Get("/panic", fails)
	for range 3 {
		wantStatus(t, app, get("/panic"), http.StatusInternalServerError)
	}
	app = newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "method"), &httplimit.Config{Count: httplimit.CountFailures})
	app.Get("/panic", fails)
	wantStatus(t, app, get("/panic"), http.StatusInternalServerError)
	wantStatus(t, app, get("/panic"), http.StatusTooManyRequests)
}

// An error that a handler returns is answered after the middleware: it counts as what it will be.
func TestError(t *testing.T) {
	for _, c := range []struct {
		err   error
		first int
		then  int
	}{
		{fiber.NewError(http.StatusUnauthorized, "who?"), http.StatusUnauthorized, http.StatusTooManyRequests},
		{errors.New("failed"), http.StatusInternalServerError, http.StatusTooManyRequests},
		{fiber.NewError(http.StatusNotModified, "known"), http.StatusNotModified, http.StatusNotModified},
	} {
		app := newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "method"), &httplimit.Config{Count: httplimit.CountFailures})
		app.Get("/login", func(fiber.Ctx) error { return c.err })
		wantStatus(t, app, get("/login"), c.first)
		wantStatus(t, app, get("/login"), c.then)
	}
}

// The functions of the configuration see the request as net/http would have it.
func TestRequestForFunctions(t *testing.T) {
	type key struct{}
	var got *http.Request
	app := fiber.New()
	limits, err := fiberlimit.New(newLimiter(t, tidegate.Limit{Rate: 9, Per: time.Hour}, "method"), &httplimit.Config{
		Cost: func(r *http.Request) int64 { got = r; return 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	app.Use(func(c fiber.Ctx) error {
		c.Locals(key{}, "of fiber")
		return c.Next()
	}, limits)
	app.Post("/items/:id", nothing)
	r := httptest.NewRequest(http.MethodPost, "http://api.example.com:8080/items/a%2Fb?x=1&x=2", strings.NewReader("hello"))
	r.Header["X-Twice"] = []string{"one", "two"}
	r.Header.Set("Cookie", "session=1")
	wantStatus(t, app, r, http.StatusOK)
	if got.Method != http.MethodPost || got.Host != "api.example.com:8080" || got.URL.Path != "/items/a/b" || got.URL.RawQuery != "x=1&x=2" {
		t.Errorf("got %s %s %s", got.Method, got.Host, got.URL)
	}
	if v := got.Header["X-Twice"]; len(v) != 2 || v[1] != "two" {
		t.Errorf("header lines %q", v)
	}
	if c, err := got.Cookie("session"); err != nil || c.Value != "1" {
		t.Errorf("cookie %v %v", c, err)
	}
	if got.ContentLength != 5 || got.ProtoMajor != 1 || got.ProtoMinor != 1 || got.Header.Get("Host") != "" || got.RemoteAddr == "" {
		t.Errorf("got %+v", got)
	}
	if body, err := io.ReadAll(got.Body); err != nil || len(body) != 0 {
		t.Errorf("body %q %v", body, err)
	}
}

// What fasthttp returns is overwritten by the next request. Keys must not be: a key that changes is another client's.
func TestKeysOutliveTheirRequest(t *testing.T) {
	app := newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "header.x-user"), nil)
	app.Get("/", nothing)
	url := serve(t, app)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} // one connection, whose buffers are used again
	defer client.CloseIdleConnections()
	for i, user := range []string{"alice", "bobby", "carol", "alice", "bobby", "carol"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", user)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		want := http.StatusOK
		if i > 2 {
			want = http.StatusTooManyRequests
		}
		if resp.StatusCode != want {
			t.Errorf("%d: %s: %d, want %d", i, user, resp.StatusCode, want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	_, err := fiberlimit.New(nil, &httplimit.Config{Respond: func(http.ResponseWriter, *http.Request, *httplimit.Answer) {}})
	for _, want := range []string{"decider is nil", "Respond"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
