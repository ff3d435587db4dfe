package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func codeOf(err error) codes.Code { return status.Code(err) }

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

func tcp(addr string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
}

// The address is decided on by its bits, not by its notation: who has one address, or one network, is one client.
func TestAddressOfPeer(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
		ok   bool
	}{
		{tcp("1.2.3.4:5"), "1.2.3.4", true},
		{tcp("[::ffff:1.2.3.4]:5"), "1.2.3.4", true},
		{tcp("[::ffff:102:304]:5"), "1.2.3.4", true},
		{tcp("[2001:db8:1:2:3:4:5:6]:7"), "2001:db8:1:2::", true},
		{tcp("[2001:db8:1:2:ffff::1]:7"), "2001:db8:1:2::", true},
		{tcp("[2001:db8::1.2.3.4]:7"), "2001:db8::", true},
		{tcp("[64:ff9b::1.2.3.4]:7"), "64:ff9b::", true},
		{tcp("[fe80::1%eth0]:7"), "fe80::", true},
		{tcp("[::1]:7"), "::", true},
		{textAddr("1.2.3.4:5"), "1.2.3.4", true},
		{textAddr("[2001:db8::1]:5"), "2001:db8::", true},
		{textAddr("bufconn"), "", false},
		{textAddr(""), "", false},
		{&net.UnixAddr{Name: "@", Net: "unix"}, "", false},
		{nil, "", false},
	} {
		s := newServer(t, newLimiter(t, "1/s", ""), nil)
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: c.addr})
		got, ok := (&Call{gate: &s.gate, ctx: ctx}).Attribute("ip")
		if got != c.want || ok != c.ok {
			t.Errorf("%v: %q %v, want %q %v", c.addr, got, ok, c.want, c.ok)
		}
	}
}

func TestAttributes(t *testing.T) {
	type key struct{}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: tcp("[2001:db8::1]:2")})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-tenant", "a", "x-tenant", "b", "empty", ""))
	ctx = context.WithValue(ctx, key{}, "alice")
	s := newServer(t, newLimiter(t, "1/s", ""), &ServerConfig{
		IPv6Prefix: 32,
		Attribute: func(c *Call, name string) (string, bool) {
			if name == "user" {
				user, ok := c.Context().Value(key{}).(string)
				return user, ok
			}
			return "mine", name == "service"
		},
	})
	own := newServer(t, newLimiter(t, "1/s", ""), &ServerConfig{
		ClientIP: func(*Call) netip.Addr { return netip.MustParseAddr("::ffff:9.8.7.6") },
	})
	nobody := newServer(t, newLimiter(t, "1/s", ""), &ServerConfig{ClientIP: func(*Call) netip.Addr { return netip.Addr{} }})
	cl := newClient(t, newLimiter(t, "1/s", ""), nil)
	out := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("x-tenant", "c"))
	server := &Call{gate: &s.gate, ctx: ctx, method: unaryMethod}
	client := &Call{gate: &cl.gate, ctx: out, method: unaryMethod, target: "dns:///x", client: true}
	for _, c := range []struct {
		call *Call
		name string
		want string
		ok   bool
	}{
		{server, "method", unaryMethod, true},
		{server, "service", "mine", true}, // one's own go first
		{server, "ip", "2001:db8::", true},
		{server, "user", "alice", true},
		{server, "metadata.x-tenant", "a", true},
		{server, "metadata.X-Tenant", "a", true},
		{server, "metadata.empty", "", true}, // an empty value is a value
		{server, "metadata.none", "", false},
		{server, "target", "", false},
		{server, "metadata.", "", false},
		{server, "", "", false},
		{&Call{gate: &own.gate, ctx: ctx}, "ip", "9.8.7.6", true},
		{&Call{gate: &nobody.gate, ctx: ctx}, "ip", "", false},
		{client, "method", unaryMethod, true},
		{client, "service", "grpc.testing.TestService", true},
		{client, "target", "dns:///x", true},
		{client, "metadata.x-tenant", "c", true},
		{client, "metadata.none", "", false},
		{client, "ip", "", false},
	} {
		got, ok := c.call.Attribute(c.name)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %q %v, want %q %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestServiceOfMethod(t *testing.T) {
	for method, want := range map[string]string{
		"/a.B/C": "a.B", "a.B/C": "a.B", "/C": "C", "": "", "/": "", "/a/b/C": "a/b",
	} {
		if got := (&Call{method: method}).Service(); got != want {
			t.Errorf("%q: %q, want %q", method, got, want)
		}
	}
}
