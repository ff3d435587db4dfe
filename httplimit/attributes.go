package httplimit

import (
	"net/http"
	"strings"
	"sync"

	"github.com/tidegate-go/tidegate"
)

// attributes are those of one request: method, host, path, pattern, ip, header.NAME, query.NAME, cookie.NAME, and the
// caller's own. They are worked out when they are asked for, and are gone when the decision is made.
type attributes struct {
	m    *Middleware
	req  Request
	http httpRequest // req, where it is net/http's
}

var attributePool = sync.Pool{New: func() any { return new(attributes) }}

func (a *attributes) free() {
	*a = attributes{}
	attributePool.Put(a)
}

// Attributes returns the attributes of a request as the middleware gives them to its decider, for what is decided elsewhere, such
// as a replay. They may be kept as long as the request.
func (m *Middleware) Attributes(req Request) tidegate.Attributes {
	return &attributes{m: m, req: req}
}

// Attribute returns the value of the attribute.
func (a *attributes) Attribute(name string) (string, bool) {
	if f := a.m.cfg.Attribute; f != nil {
		if v, ok := f(a.req.HTTP(), name); ok {
			return v, true
		}
	}
	switch name {
	case "ip":
		return a.m.clients.Key(a.req.RemoteAddr(), a.req)
	case "path":
		return CleanPath(a.req.Path()), true
	case "method":
		if method := a.req.Method(); method != http.MethodHead && method != "" {
			return method, true
		}
		return http.MethodGet, true
	case "host":
		return cleanHost(a.req.Host()), true
	case "pattern":
		p := a.req.Pattern()
		return p, p != ""
	}
	kind, of, ok := strings.Cut(name, ".")
	if !ok {
		return "", false
	}
	switch kind {
	case "header":
		return a.header(of)
	case "query":
		return queryValue(a.req.Query(), of)
	case "cookie":
		return cookieValue(a.req.Values("Cookie"), of)
	}
	return "", false
}

// header returns the first line of a header, as handlers see it.
func (a *attributes) header(name string) (string, bool) {
	name = a.m.names.get(name)
	if name == "Host" { // net/http and others keep it elsewhere
		return a.req.Host(), true
	}
	if lines := a.req.Values(name); len(lines) > 0 {
		return lines[0], true
	}
	return "", false
}
