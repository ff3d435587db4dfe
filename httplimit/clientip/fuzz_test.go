package clientip_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

func resolver(tb testing.TB, cfg clientip.Config) *clientip.Resolver {
	tb.Helper()
	r, err := clientip.New(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// Whatever a client writes to the left of what the proxy appends, in lines of its own or in the same, the client is who
// the proxy says it is.
func FuzzXForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.2.3.4", "1.2.3.4, 10.0.0.1", `"`, "[::1", ",,", "10.0.0.1\n10.0.0.2"} {
		f.Add(s)
	}
	trusted := resolver(f, clientip.Config{Trusted: []string{"10.0.0.0/8"}})
	hops := resolver(f, clientip.Config{Hops: 1})
	f.Fuzz(func(t *testing.T, forged string) {
		lines := strings.Split(forged, "\n")
		for _, r := range []*clientip.Resolver{trusted, hops} {
			for _, lines := range []clientip.Lines{
				append(append([]string(nil), lines...), "203.0.113.9"),
				{forged + ", 203.0.113.9"},
				{forged + ",203.0.113.9:80"},
			} {
				if got, ok := r.Key("10.0.0.1:1", lines); !ok || got != "203.0.113.9" {
					t.Errorf("%q: the client is %q", lines, got)
				}
			}
			check(t, r, lines)
		}
	})
}

// The same for Forwarded, whose quotes a client may leave open.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", "for=1.2.3.4", `for="1.2.3.4`, `for="\`, `for="a,b";host=","`, "for=[::1]", ";;=", "for=_x\nfor=unknown"} {
		f.Add(s)
	}
	trusted := resolver(f, clientip.Config{Trusted: []string{"10.0.0.0/8"}, Header: "Forwarded"})
	hops := resolver(f, clientip.Config{Hops: 1, Header: "Forwarded"})
	f.Fuzz(func(t *testing.T, forged string) {
		lines := strings.Split(forged, "\n")
		for _, r := range []*clientip.Resolver{trusted, hops} {
			for _, lines := range []clientip.Lines{
				append(append([]string(nil), lines...), "for=203.0.113.9"),
				{forged + ", for=203.0.113.9"},
				{forged + `,proto=https;for="203.0.113.9:80"`},
			} {
				if got, ok := r.Key("10.0.0.1:1", lines); !ok || got != "203.0.113.9" {
					t.Errorf("%q: the client is %q", lines, got)
				}
			}
			check(t, r, lines)
		}
	})
}

// check holds what is true of every answer: the key is an address in its shortest form.
func check(t *testing.T, r *clientip.Resolver, lines clientip.Lines) {
	t.Helper()
	key, ok := r.Key("10.0.0.1:1", lines)
	if !ok {
		t.Fatalf("%q: a request from a socket with an address has no client", lines)
	}
	a, err := netip.ParseAddr(key)
	if err != nil || a.String() != key || a.Is4In6() || a.Zone() != "" {
		t.Errorf("%q: the key %q is no address in its shortest form", lines, key)
	}
}

// No socket's address is more than one client, or makes trouble.
func FuzzRemoteAddr(f *testing.F) {
	for _, s := range []string{"1.2.3.4:5", "[::1]:5", "[fe80::1%eth0]:5", "@", "", "::ffff:1.2.3.4", "[1.2.3.4]", "1.2.3.4:999999"} {
		f.Add(s)
	}
	r := resolver(f, clientip.Config{})
	f.Fuzz(func(t *testing.T, remote string) {
		key, ok := r.Key(remote, nil)
		if !ok {
			return
		}
		if again, ok := r.Key(key, nil); !ok || again != key {
			t.Errorf("%q is the client %q, and that is %q", remote, key, again)
		}
	})
}
