package e2e

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
	"go.uber.org/goleak"
)

// Nothing that a test started outlives it: no server, no browser.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeCommand()
		os.Exit(code)
	}))
}

// limiter returns one of rule "api".
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

// middlewares are the ways in which a handler gets its writer: the server's own, the same with a permit to give back at the
// end, and a wrapped one.
func middlewares(tb testing.TB) map[string]*httplimit.Middleware {
	tb.Helper()
	return map[string]*httplimit.Middleware{
		"as it is":      middleware(tb, limiter(tb, "1000/s"), nil),
		"with a permit": middleware(tb, limiter(tb, "1 concurrent"), &httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: 5 * time.Second}}),
		"wrapped":       middleware(tb, limiter(tb, "1000/s"), &httplimit.Config{Count: httplimit.CountFailures}),
	}
}

// page is an empty page for a script to run in.
func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<!doctype html><title>test</title>"))
}
