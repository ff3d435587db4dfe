package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// limiter returns one of rule "api", whose store lives as long as the test. In a synctest bubble its clock is virtual.
func limiter(tb testing.TB, text string) *tidegate.Limiter {
	tb.Helper()
	limit, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	store := memstore.New(nil)
	tb.Cleanup(func() { _ = store.Close() })
	l, err := tidegate.New(store, limit, &tidegate.Config{Rule: "api"})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func middleware(tb testing.TB, d tidegate.Decider, cfg *httplimit.Config) *httplimit.Middleware {
	tb.Helper()
	m, err := httplimit.New(d, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// get sends a request to a handler, without a socket.
func get(h http.Handler) *httptest.ResponseRecorder {
	return getWith(context.Background(), h)
}

func getWith(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return w
}

func ok(http.ResponseWriter, *http.Request) {}

// takes is a handler that is busy for a time.
func takes(d time.Duration) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(d) })
}

// decider decides by a function.
type decider func(ctx context.Context, a tidegate.Attributes, cost int64) (tidegate.Decision, error)

func (f decider) Decide(ctx context.Context, a tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	return f(ctx, a, cost)
}

// named sends a request with a name and returns the status.
func named(h http.Handler, name string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Name", name)
	h.ServeHTTP(w, r)
	return w.Code
}
