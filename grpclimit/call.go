package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tidegate-go/tidegate"
)

// A Call is what is known of a call when it is decided on, or of a message of a stream. It is valid until the function
// that it is given to returns.
type Call struct {
	gate     *gate
	ctx      context.Context //nolint:containedctx // a call is an argument, which ends with its context
	method   string
	target   string // of a client's call
	message  any
	client   bool
	stream   bool
	decided  bool
	decision tidegate.Decision
}

// Context returns the context of the call: on a server the incoming one, on a client the one that the caller gave.
func (c *Call) Context() context.Context { return c.ctx }

// Method returns the full method: /helloworld.Greeter/SayHello.
func (c *Call) Method() string { return c.method }

// Service returns the service of the method: helloworld.Greeter.
func (c *Call) Service() string {
	return serviceOf(c.method)
}

// Stream reports whether the call is of a streaming method.
func (c *Call) Stream() bool { return c.stream }

// Message returns the request of a unary call, or the message of a stream that ReceiveCost or SendCost is asked about;
// nil when a stream starts.
func (c *Call) Message() any { return c.message }

// One is a cost of 1, for ReceiveCost and SendCost.
func One(*Call) int64 { return 1 }

// Attribute returns an attribute of the call, as the package comment lists them; the Attribute function of the
// configuration goes first.
func (c *Call) Attribute(name string) (string, bool) {
	if c.gate.attribute != nil {
		if v, ok := c.gate.attribute(c, name); ok {
			return v, true
		}
	}
	switch name {
	case "method":
		return c.method, true
	case "service":
		return c.Service(), true
	case "target":
		return c.target, c.client
	case "ip":
		if v, ok := c.ip(); ok {
			return v, true
		}
		c.gate.warnNoAddress(c)
		return "", false
	}
	if key, ok := strings.CutPrefix(name, "metadata."); ok {
		return c.metadata(key)
	}
	return "", false
}

// ip writes the client's address as the package comment says, so that no client has several by its notation.
func (c *Call) ip() (string, bool) {
	if c.client {
		return "", false
	}
	var a netip.Addr
	if c.gate.clientIP != nil {
		a = c.gate.clientIP(c)
	} else if p, ok := peer.FromContext(c.ctx); ok {
		a = address(p.Addr)
	}
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return "", false
	case a.Is4():
		return a.String(), true
	}
	p, err := a.Prefix(c.gate.ipv6Prefix)
	if err != nil {
		return "", false // the length was checked when the server's interceptors were made
	}
	return p.Addr().String(), true
}

// address returns the address of a peer; not a valid one where there is none, as on a Unix socket.
func address(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return a.AddrPort().Addr()
	}
	// Listeners of one's own, such as those that read the PROXY protocol, have addresses of their own.
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}

// metadata returns the first value of the key: of what came in on a server, of what goes out on a client.
func (c *Call) metadata(key string) (string, bool) {
	if !c.client {
		if vs := metadata.ValueFromIncomingContext(c.ctx, key); len(vs) > 0 {
			return vs[0], true
		}
		return "", false
	}
	md, _ := metadata.FromOutgoingContext(c.ctx)
	if vs := md.Get(key); len(vs) > 0 {
		return vs[0], true
	}
	return "", false
}

// serviceOf returns the service of "/service/method".
func serviceOf(method string) string {
	method = strings.TrimPrefix(method, "/")
	if i := strings.LastIndexByte(method, '/'); i >= 0 {
		return method[:i]
	}
	return method
}

// callContext is the context that a server's handler gets, with its call.
type callContext struct {
	context.Context //nolint:containedctx // it is a context

	call Call
}

type callKey struct{}

// Value returns the call for the key of this package.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// FromContext returns the decision that let the call pass that a server's handler was given the context of: for one that
// tells its caller what is left. There is none where nothing was asked: the call was skipped, its cost was 0, or it was
// let pass by FailOpen. The messages of a stream do not change it.
func FromContext(ctx context.Context) (d tidegate.Decision, ok bool) {
	if c, _ := ctx.Value(callKey{}).(*Call); c != nil && c.decided {
		return c.decision, true
	}
	return d, false
}
