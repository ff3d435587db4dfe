package clientip_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// Who the client is, as a table: whom the config trusts, what came, and whose bucket it is.
func TestIdentity(t *testing.T) {
	var (
		nobody   = clientip.Config{}
		proxies  = clientip.Config{Trusted: []string{"10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.7"}}
		standard = clientip.Config{Trusted: []string{"10.0.0.0/8", "2001:db8:ffff::/48"}, Header: "Forwarded"}
		named    = clientip.Config{Trusted: []string{"10.0.0.0/8"}, Header: "CF-Connecting-IP"}
		oneHop   = clientip.Config{Hops: 1}
		twoHops  = clientip.Config{Hops: 2}
		hopStd   = clientip.Config{Hops: 1, Header: "forwarded"}
		unix     = clientip.Config{Trusted: []string{"unix", "loopback"}}
		wide     = clientip.Config{Trusted: []string{"10.0.0.0/8"}, IPv6Prefix: 48}
		exact    = clientip.Config{Trusted: []string{"10.0.0.0/8"}, IPv6Prefix: 128}
	)
	const proxy = "10.0.0.1:44321"
	xff := func(lines ...string) http.Header { return http.Header{"X-Forwarded-For": lines} }
	std := func(lines ...string) http.Header { return http.Header{"Forwarded": lines} }
	cf := func(lines ...string) http.Header { return http.Header{"Cf-Connecting-Ip": lines} }

	for _, c := range []struct {
		name   string
		cfg    clientip.Config
		remote string
		header http.Header
		want   string // the key; empty: the client is not known
	}{
		// The socket alone.
		{"a socket's address", nobody, "203.0.113.9:51234", nil, "203.0.113.9"},
		{"without a port", nobody, "203.0.113.9", nil, "203.0.113.9"},
		{"IPv6 by /64", nobody, "[2001:db8:1:2:3:4:5:6]:443", nil, "2001:db8:1:2::"},
		{"IPv6, another of the /64", nobody, "[2001:db8:1:2:ffff::1]:443", nil, "2001:db8:1:2::"},
		{"IPv6, the next /64", nobody, "[2001:db8:1:3::1]:443", nil, "2001:db8:1:3::"},
		{"IPv6 without brackets and port", nobody, "2001:db8:1:2::1", nil, "2001:db8:1:2::"},
		{"IPv6 in brackets without a port", nobody, "[2001:db8:1:2::1]", nil, "2001:db8:1:2::"},
		{"IPv6 in capitals and zeros", nobody, "[2001:0DB8:0001:0002:0000:0000:0000:0001]:1", nil, "2001:db8:1:2::"},
		{"a zone is dropped", nobody, "[fe80::1%eth0]:80", nil, "fe80::"},
		{"mapped in dots", nobody, "[::ffff:203.0.113.9]:80", nil, "203.0.113.9"},
		{"mapped in hex", nobody, "[::ffff:cb00:7109]:80", nil, "203.0.113.9"},
		{"mapped with a zone", nobody, "[::ffff:203.0.113.9%eth0]:80", nil, "203.0.113.9"},
		{"dots at the end of what is IPv6", nobody, "[2001:db8::1.2.3.4]:80", nil, "2001:db8::"},
		{"NAT64 is IPv6", nobody, "[64:ff9b::1.2.3.4]:80", nil, "64:ff9b::"},
		{"compatible is IPv6", nobody, "[::1.2.3.4]:80", nil, "::"},
		{"loopback", nobody, "127.0.0.1:80", nil, "127.0.0.1"},
		{"a Unix socket", nobody, "@", nil, ""},
		{"a Unix socket with a path", nobody, "/run/app.sock", nil, ""},
		{"no address", nobody, "", nil, ""},
		{"junk", nobody, "localhost:80", nil, ""},
		{"forged by nobody trusted", nobody, "203.0.113.9:1", xff("198.51.100.1"), "203.0.113.9"},
		{"forged in another header", nobody, "203.0.113.9:1", std("for=198.51.100.1"), "203.0.113.9"},
		{"forged past the proxy", proxies, "203.0.113.9:1", xff("198.51.100.1"), "203.0.113.9"},

		// X-Forwarded-For of trusted proxies.
		{"one proxy", proxies, proxy, xff("203.0.113.9"), "203.0.113.9"},
		{"a chain of proxies", proxies, proxy, xff("203.0.113.9, 10.0.0.3, 10.0.0.2"), "203.0.113.9"},
		{"a proxy by its address", proxies, "192.0.2.7:1", xff("203.0.113.9"), "203.0.113.9"},
		{"next to a proxy's address", proxies, "192.0.2.8:1", xff("203.0.113.9"), "192.0.2.8"},
		{"a proxy of IPv6", proxies, "[2001:db8:ffff:1::1]:1", xff("203.0.113.9"), "203.0.113.9"},
		{"a proxy in mapped form", proxies, "[::ffff:10.0.0.1]:1", xff("203.0.113.9"), "203.0.113.9"},
		{"forged at the left", proxies, proxy, xff("198.51.100.1, 203.0.113.9"), "203.0.113.9"},
		{"forged as one of ours", proxies, proxy, xff("10.9.9.9, 203.0.113.9, 10.0.0.2"), "203.0.113.9"},
		{"forged in a line before", proxies, proxy, xff("198.51.100.1", "203.0.113.9"), "203.0.113.9"},
		{"several lines of proxies", proxies, proxy, xff("203.0.113.9", "10.0.0.3", "10.0.0.2"), "203.0.113.9"},
		{"lines with several entries", proxies, proxy, xff("198.51.100.1, 203.0.113.9", "10.0.0.3,10.0.0.2"), "203.0.113.9"},
		{"a list without spaces", proxies, proxy, xff("198.51.100.1,203.0.113.9,10.0.0.2"), "203.0.113.9"},
		{"tabs and spaces", proxies, proxy, xff(" \t203.0.113.9\t ,\t10.0.0.2 "), "203.0.113.9"},
		{"empty entries", proxies, proxy, xff("203.0.113.9,, ,10.0.0.2,"), "203.0.113.9"},
		{"an empty line at the end", proxies, proxy, xff("203.0.113.9", ""), "203.0.113.9"},
		{"an empty header", proxies, proxy, xff(""), "10.0.0.1"},
		{"nothing but commas", proxies, proxy, xff(",,,"), "10.0.0.1"},
		{"no header from the proxy", proxies, proxy, nil, "10.0.0.1"},
		{"another header from the proxy", proxies, proxy, std("for=203.0.113.9"), "10.0.0.1"},
		{"all of them are ours", proxies, proxy, xff("10.0.0.9, 10.0.0.2"), "10.0.0.9"},
		{"with a port", proxies, proxy, xff("203.0.113.9:51234"), "203.0.113.9"},
		{"IPv6 with a port", proxies, proxy, xff("[2001:db8:1:2::9]:51234"), "2001:db8:1:2::"},
		{"IPv6 with a zone", proxies, proxy, xff("fe80::9%en0"), "fe80::"},
		{"IPv6 bare", proxies, proxy, xff("2001:db8:1:2::9"), "2001:db8:1:2::"},
		{"mapped in the header", proxies, proxy, xff("::ffff:203.0.113.9"), "203.0.113.9"},
		{"a mapped proxy in the header", proxies, proxy, xff("203.0.113.9, ::ffff:10.0.0.2"), "203.0.113.9"},
		{"junk at the right", proxies, proxy, xff("203.0.113.9, unknown"), "10.0.0.1"},
		{"junk behind a proxy", proxies, proxy, xff("junk, 10.0.0.2"), "10.0.0.2"},
		{"junk at the left is not read", proxies, proxy, xff("';--, 203.0.113.9"), "203.0.113.9"},
		{"leading zeros are junk", proxies, proxy, xff("203.0.113.010"), "10.0.0.1"},
		{"a short address is junk", proxies, proxy, xff("203.0.113"), "10.0.0.1"},
		{"a number is junk", proxies, proxy, xff("3405803785"), "10.0.0.1"},
		{"a port of letters is junk", proxies, proxy, xff("203.0.113.9:http"), "10.0.0.1"},
		{"half a bracket is junk", proxies, proxy, xff("[2001:db8::1"), "10.0.0.1"},
		{"IPv4 in brackets is junk", proxies, proxy, xff("[203.0.113.9]"), "10.0.0.1"},
		{"a prefix is junk", proxies, proxy, xff("203.0.113.0/24"), "10.0.0.1"},
		{"quotes are junk", proxies, proxy, xff(`"203.0.113.9"`), "10.0.0.1"},
		{"nobody's address is junk", proxies, proxy, xff("0.0.0.0"), "10.0.0.1"},
		{"nobody's address of IPv6 is junk", proxies, proxy, xff("::"), "10.0.0.1"},
		{"an oversize entry is junk", proxies, proxy, xff(strings.Repeat("1", 1<<16)), "10.0.0.1"},
		{"an oversize list at the left", proxies, proxy, xff(strings.Repeat("198.51.100.1, ", 1<<14) + "203.0.113.9"), "203.0.113.9"},
		{"an oversize list of ours", proxies, proxy, xff("203.0.113.9" + strings.Repeat(", 10.0.0.2", 1<<14)), "10.0.0.2"},

		// Forwarded, RFC 7239.
		{"Forwarded", standard, proxy, std("for=203.0.113.9"), "203.0.113.9"},
		{"Forwarded with all there is", standard, proxy, std(`by=10.0.0.1;For="203.0.113.9:4711";host=example.com;proto=https`), "203.0.113.9"},
		{"Forwarded of IPv6", standard, proxy, std(`for="[2001:db8:1:2::9]:4711"`), "2001:db8:1:2::"},
		{"Forwarded of IPv6, not quoted", standard, proxy, std(`for=[2001:db8:1:2::9]`), "2001:db8:1:2::"},
		{"Forwarded through a chain", standard, proxy, std(`for=203.0.113.9, for="[2001:db8:ffff::3]"`, "for=10.0.0.2"), "203.0.113.9"},
		{"Forwarded, forged at the left", standard, proxy, std(`for=198.51.100.1, for=203.0.113.9`), "203.0.113.9"},
		{"Forwarded, a quote left open at the left", standard, proxy, std(`for="198.51.100.1, for=203.0.113.9`), "203.0.113.9"},
		{"Forwarded, a quote left open before a quoted one", standard, proxy, std(`for="x, for="[2001:db8:1:2::9]"`), "2001:db8:1:2::"},
		{"Forwarded, a comma in quotes", standard, proxy, std(`for=203.0.113.9;host="a,for=198.51.100.1"`), "203.0.113.9"},
		{"Forwarded, a quote in quotes", standard, proxy, std(`for=203.0.113.9;host="a\",for=198.51.100.1,\""`), "203.0.113.9"},
		{"Forwarded, escaped", standard, proxy, std(`for="203.0\.113.9"`), "203.0.113.9"},
		{"Forwarded, unknown", standard, proxy, std("for=unknown"), "10.0.0.1"},
		{"Forwarded, hidden", standard, proxy, std("for=_gazonk, for=10.0.0.2"), "10.0.0.2"},
		{"Forwarded without for", standard, proxy, std("proto=https;by=203.0.113.9"), "10.0.0.1"},
		{"Forwarded with two of them", standard, proxy, std("for=198.51.100.1;for=203.0.113.9"), "10.0.0.1"},
		{"Forwarded with a semicolon at the end", standard, proxy, std("for=203.0.113.9;"), "203.0.113.9"},
		{"Forwarded, malformed", standard, proxy, std("203.0.113.9"), "10.0.0.1"},
		{"X-Forwarded-For where Forwarded is read", standard, proxy, xff("203.0.113.9"), "10.0.0.1"},

		// A header with one address.
		{"a named header", named, proxy, cf("203.0.113.9"), "203.0.113.9"},
		{"a named header of IPv6", named, proxy, cf("2001:db8:1:2::9"), "2001:db8:1:2::"},
		{"a named header past the proxy", named, "203.0.113.9:1", cf("198.51.100.1"), "203.0.113.9"},
		{"a named header twice", named, proxy, cf("198.51.100.1", "203.0.113.9"), "10.0.0.1"},
		{"a named header with a list", named, proxy, cf("198.51.100.1, 203.0.113.9"), "10.0.0.1"},
		{"a named header with junk", named, proxy, cf("-"), "10.0.0.1"},
		{"a named header that is not there", named, proxy, xff("198.51.100.1"), "10.0.0.1"},

		// Hops.
		{"one hop", oneHop, "192.0.2.1:1", xff("198.51.100.1, 203.0.113.9"), "203.0.113.9"},
		{"one hop over lines", oneHop, "192.0.2.1:1", xff("198.51.100.1", "203.0.113.9"), "203.0.113.9"},
		{"two hops", twoHops, "192.0.2.1:1", xff("198.51.100.1, 203.0.113.9, 192.0.2.2"), "203.0.113.9"},
		{"two hops over lines", twoHops, "192.0.2.1:1", xff("198.51.100.1", "203.0.113.9", "192.0.2.2"), "203.0.113.9"},
		{"fewer than two hops", twoHops, "192.0.2.1:1", xff("203.0.113.9"), "192.0.2.1"},
		{"no hop", oneHop, "192.0.2.1:1", nil, "192.0.2.1"},
		{"a hop with junk", oneHop, "192.0.2.1:1", xff("203.0.113.9, -"), "192.0.2.1"},
		{"a hop over a Unix socket", oneHop, "@", xff("203.0.113.9"), "203.0.113.9"},
		{"a hop of Forwarded", hopStd, "192.0.2.1:1", std(`for=198.51.100.1, for="203.0.113.9"`), "203.0.113.9"},

		// Unix sockets, and other prefixes of IPv6.
		{"a trusted Unix socket", unix, "@", xff("203.0.113.9"), "203.0.113.9"},
		{"a trusted Unix socket and a proxy", unix, "", xff("203.0.113.9, ::1"), "203.0.113.9"},
		{"a trusted Unix socket without a header", unix, "@", nil, ""},
		{"a trusted Unix socket with junk", unix, "@", xff("junk"), ""},
		{"IPv6 by /48", wide, proxy, xff("2001:db8:1:2::9"), "2001:db8:1::"},
		{"IPv6 by address", exact, proxy, xff("2001:db8:1:2::9"), "2001:db8:1:2::9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := clientip.New(&c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second may come from the cache
				got, ok := r.Key(c.remote, c.header)
				if got != c.want || ok != (c.want != "") {
					t.Errorf("the client is %q, %v, want %q", got, ok, c.want)
				}
			}
			a := r.Addr(c.remote, c.header)
			if a.IsValid() != (c.want != "") || a.IsValid() && r.KeyOf(a) != c.want {
				t.Errorf("the address is %v", a)
			}
		})
	}
}

// A key is kept by stores: it must not keep a header line of many kilobytes in memory with it.
func TestKeyDoesNotKeepALongLine(t *testing.T) {
	r, err := clientip.New(&clientip.Config{Hops: 1})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1<<16) + ", 203.0.113.9"
	key, _ := r.Key("10.0.0.1:1", clientip.Lines{line})
	if key != "203.0.113.9" || unsafe.StringData(key) == unsafe.StringData(line[len(line)-len(key):]) {
		t.Errorf("the key %q is a part of the line", key)
	}
}

// An address that somebody else has parsed is the same client in whichever form it comes.
func TestKeyOf(t *testing.T) {
	r, err := clientip.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"::ffff:203.0.113.9": "203.0.113.9", "203.0.113.9": "203.0.113.9", "fe80::1%eth0": "fe80::", "2001:db8:1:2::9": "2001:db8:1:2::",
	} {
		if got := r.KeyOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is the client %s, want %s", text, got, want)
		}
	}
}

// A line as a log has it is as good as the header.
func TestLines(t *testing.T) {
	r, err := clientip.New(&clientip.Config{Trusted: []string{"private"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Addr("192.168.1.1", clientip.Lines{"2001:db8::1, 172.16.0.1, 10.1.1.1"}).String(); got != "2001:db8::1" {
		t.Error(got)
	}
	if got := r.Reads(); got != "X-Forwarded-For" {
		t.Error(got)
	}
	r, err = clientip.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Reads(); got != "" {
		t.Error(got)
	}
}
