package clientip_test

import (
	"net/http"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// To find a client that was there before allocates nothing.
func TestKeyAllocatesNothing(t *testing.T) {
	for name, c := range cases(t) {
		if n := testing.AllocsPerRun(1000, func() { c.resolver.Key(c.remote, c.header) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	for name, c := range cases(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.resolver.Key(c.remote, c.header)
			}
		})
	}
}

type benchCase struct {
	resolver *clientip.Resolver
	remote   string
	header   http.Header
}

func cases(tb testing.TB) map[string]benchCase {
	tb.Helper()
	trusting := resolver(tb, clientip.Config{Trusted: []string{"private"}})
	return map[string]benchCase{
		"socket":          {resolver(tb, clientip.Config{}), "203.0.113.9:51234", nil},
		"socket IPv6":     {resolver(tb, clientip.Config{}), "[2001:db8:1:2::9]:51234", nil},
		"X-Forwarded-For": {trusting, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"198.51.100.1, 203.0.113.9, 10.0.0.2"}}},
		"IPv6 in it":      {trusting, "10.0.0.1:80", http.Header{"X-Forwarded-For": {"198.51.100.1, 2001:db8:1:2::9, 10.0.0.2"}}},
	}
}
