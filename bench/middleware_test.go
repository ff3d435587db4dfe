package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
)

// emptied is a writer whose header is empty for each request, and costs the same for every contender.
type emptied struct{ header http.Header }

func (e *emptied) Header() http.Header         { return e.header }
func (e *emptied) Write(b []byte) (int, error) { return len(b), nil }
func (e *emptied) WriteHeader(int)             {}

// peerAddress is the key of httprate: the socket's address, IPv6 by /64, as ours is.
func peerAddress(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}

// BenchmarkMiddleware measures what a middleware adds to a request that passes, by the client's address, with the headers
// that each sets by default, in one run. "legacy alone" sets the three headers that the peers set.
//
//	make bench-go PKG=./bench BENCH=Middleware COUNT=6
func BenchmarkMiddleware(b *testing.B) {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 1 << 30, Per: time.Second}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ours := func(cfg httplimit.Config) func(http.Handler) http.Handler {
		m, err := httplimit.New(limiter, &cfg)
		if err != nil {
			b.Fatal(err)
		}
		return m.Wrap
	}
	for _, c := range []struct {
		name string
		wrap func(http.Handler) http.Handler
	}{
		{"none", func(next http.Handler) http.Handler { return next }},
		{"tidegate", ours(httplimit.Config{})},
		{"tidegate/no context", ours(httplimit.Config{NoContext: true})},
		{"tidegate/legacy alone", ours(httplimit.Config{NoContext: true, Headers: httplimit.NoFields, Legacy: httplimit.LegacyUnix})},
		{"tidegate/no headers", ours(httplimit.Config{NoContext: true, Headers: httplimit.NoFields})},
		{"httprate", httprate.LimitBy(1<<40, time.Hour, peerAddress)},
		{"ulule", ululehttp.NewMiddleware(ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: 1 << 50})).Handler},
	} {
		b.Run(c.name, func(b *testing.B) {
			passed := 0
			h := c.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
			r := httptest.NewRequest(http.MethodGet, "http://example.com/items/7", nil)
			r.RemoteAddr = "203.0.113.9:51234"
			w := &emptied{header: make(http.Header)}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
				n++
			}
			if passed != n {
				b.Fatalf("%d of %d passed", passed, n)
			}
		})
	}
}
