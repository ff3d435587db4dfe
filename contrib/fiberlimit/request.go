package fiberlimit

import (
	"net/http"
	"net/url"

	"github.com/gofiber/fiber/v3"
)

// request is a request as httplimit wants it. What fasthttp returns is overwritten by the next request, and stores keep keys:
// every string is a copy.
type request struct{ c fiber.Ctx }

// Method returns the method.
func (r request) Method() string { return string(r.c.Request().Header.Method()) }

// Host returns the Host header.
func (r request) Host() string { return string(r.c.Request().Host()) }

// Path returns the decoded path.
func (r request) Path() string { return string(r.c.Request().URI().Path()) }

// RemoteAddr returns the socket's address.
func (r request) RemoteAddr() string { return r.c.RequestCtx().RemoteAddr().String() }

// Query returns the query as it stands in the URL.
func (r request) Query() string { return string(r.c.Request().URI().QueryString()) }

// Values returns all lines of a header.
func (r request) Values(name string) []string {
	lines := r.c.Request().Header.PeekAll(name)
	values := make([]string, len(lines))
	for i, line := range lines {
		values[i] = string(line)
	}
	return values
}

// HTTP returns a request of net/http that is made of this one, without its body.
func (r request) HTTP() *http.Request {
	in := r.c.Request()
	uri := string(in.Header.RequestURI()) // that of the request, rather than of its header, is written anew from what was parsed
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		u = &url.URL{Path: r.Path(), RawQuery: r.Query()}
	}
	proto := string(in.Header.Protocol())
	major, minor, _ := http.ParseHTTPVersion(proto)
	out := &http.Request{
		Method:     r.Method(),
		URL:        u,
		Proto:      proto,
		ProtoMajor: major,
		ProtoMinor: minor,
		Header:     make(http.Header, in.Header.Len()),
		Body:       http.NoBody,
		// fasthttp has other negative numbers, too.
		ContentLength: max(-1, int64(in.Header.ContentLength())),
		Host:          r.Host(),
		RemoteAddr:    r.RemoteAddr(),
		RequestURI:    uri,
		TLS:           r.c.RequestCtx().TLSConnectionState(),
		Pattern:       r.Pattern(),
	}
	if out.Method == http.MethodGet || out.Method == http.MethodHead {
		out.ContentLength = max(0, out.ContentLength)
	}
	for name, value := range in.Header.All() {
		if key := string(name); key != fiber.HeaderHost { // as in net/http, which has it in Host alone
			out.Header.Add(key, string(value))
		}
	}
	return out.WithContext(r.c.Context())
}

// routes are those of an app that serve, rather than pass on: patterns by method. They are read when a request first asks, after
// which fiber does not take new ones either, and kept in the app's state, so that they go when it does.
type routes map[string][]string

// routesKey is what they are called there.
const routesKey = "github.com/tidegate-go/tidegate/contrib/fiberlimit.routes"

func routesOf(app *fiber.App) routes {
	if known, ok := app.State().Get(routesKey); ok {
		if rs, ok := known.(routes); ok {
			return rs
		}
	}
	rs := routes{}
	for _, route := range app.GetRoutes(true) {
		rs[route.Method] = append(rs[route.Method], route.Path)
	}
	app.State().Set(routesKey, rs) // of several at once all are the same
	return rs
}

// Pattern returns the route that will serve the request; empty where none will.
func (r request) Pattern() string {
	app := r.c.App()
	path, cfg := r.c.Path(), app.Config()
	for _, pattern := range routesOf(app)[r.Method()] {
		if fiber.RoutePatternMatch(path, pattern, cfg) {
			return pattern
		}
	}
	return ""
}
