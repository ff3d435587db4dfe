//go:build !race

// Under the race detector a sync.Pool forgets at random: make test runs these without it.

package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/memstore"
)

// discard is a writer that keeps its header's map, as if it were empty each time.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { clear(d.header); return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// On the way of a request that passes, nothing is allocated but the values of the headers that are set, and the copy of the
// request that carries the decision.
func TestPassAllocatesHeadersAndCopyAlone(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	const (
		headers = 2 // the text of RateLimit, and the values of both fields together
		legacy  = 3 // texts; the values are with the others
		context = 2 // the context with the decision, and the copy of the request
	)
	for _, c := range []struct {
		name   string
		keyBy  string
		remote string
		cfg    httplimit.Config
		want   float64
	}{
		{"default", "ip", "203.0.113.1:1", httplimit.Config{}, headers + context},
		{"default, IPv6", "ip", "[2001:db8::1]:1", httplimit.Config{}, headers + context},
		{"no context", "ip", "203.0.113.1:1", httplimit.Config{NoContext: true}, headers},
		{"no context, no fields", "ip", "203.0.113.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields}, 0},
		{"legacy", "ip", "203.0.113.1:1", httplimit.Config{NoContext: true, Legacy: httplimit.LegacySeconds}, headers + legacy},
		{"behind a proxy", "ip", "10.0.0.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields, ClientIP: &clientip.Config{Trusted: []string{"private"}}}, 0},
		{"by header", "header.x-api-key", "203.0.113.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields}, 0},
		{"by path", "path", "203.0.113.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields}, 0},
		{"by query", "query.user", "203.0.113.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields}, 0},
		{"by cookie", "cookie.session", "203.0.113.1:1", httplimit.Config{NoContext: true, Headers: httplimit.NoFields}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := tidegate.New(store, tidegate.Limit{Rate: 1 << 30, Per: time.Second}, &tidegate.Config{Rule: "api", KeyBy: c.keyBy})
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			h := middleware(t, l, &c.cfg).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
			r := httptest.NewRequest(http.MethodGet, "http://example.com/items/7?user=ann", nil)
			r.RemoteAddr = c.remote
			r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
			r.Header.Set("X-Api-Key", "a key")
			r.Header.Set("Cookie", "theme=dark; session=1")
			w := &discard{header: make(http.Header)}
			h.ServeHTTP(w, r)
			if got := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); got > c.want {
				t.Errorf("%v allocations, want at most %v", got, c.want)
			}
			if passed != 1002 {
				t.Error(fmt.Sprint(passed, " passed"))
			}
		})
	}
}
