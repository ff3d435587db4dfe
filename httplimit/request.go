package httplimit

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// A Request is what the core asks of a request, whichever framework it came through. The methods return what is in the
// request as it came; the core cleans it. Stores keep
// keys: a string must not change when the request is over.
type Request interface {
	Method() string
	// Host is the Host header, or the authority of HTTP/2.
	Host() string
	// Path is the path, decoded.
	Path() string
	// Pattern is the route that the request takes, empty where it is not known.
	Pattern() string
	// RemoteAddr is the socket's address.
	RemoteAddr() string
	// Values returns all lines of a header, whose name is canonical.
	Values(name string) []string
	// Query is the query as it stands in the URL, without the question mark.
	Query() string
	// HTTP returns the request for the functions of [Config], made for the purpose if need be.
	HTTP() *http.Request
}

// httpRequest is a Request of net/http.
type httpRequest struct {
	r       *http.Request
	pattern func(*http.Request) string
}

// Method returns the method.
func (h *httpRequest) Method() string { return h.r.Method }

// Host returns the host.
func (h *httpRequest) Host() string { return h.r.Host }

// Path returns the decoded path.
func (h *httpRequest) Path() string { return h.r.URL.Path }

// Pattern asks the config's function, or returns what the mux has chosen.
func (h *httpRequest) Pattern() string {
	if h.pattern != nil {
		return h.pattern(h.r)
	}
	return h.r.Pattern
}

// RemoteAddr returns the socket's address.
func (h *httpRequest) RemoteAddr() string { return h.r.RemoteAddr }

// Values returns the lines of a header.
func (h *httpRequest) Values(name string) []string { return h.r.Header[name] }

// Query returns the query.
func (h *httpRequest) Query() string { return h.r.URL.RawQuery }

// HTTP returns the request itself.
func (h *httpRequest) HTTP() *http.Request { return h.r }

// CleanPath returns the path as the attribute "path" has it: from the root, without ".", "..", doubled slashes and a slash at
// the end, so that one resource is one key however it is asked for. "*" stays.
func CleanPath(p string) string {
	switch {
	case p == "":
		return "/"
	case p == "*":
		return p
	case p[0] != '/':
		p = "/" + p
	}
	return path.Clean(p)
}

// cleanHost is in lower case, without the port, the brackets of IPv6 and the dot at the end.
func cleanHost(host string) string {
	if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end > 0 {
			return strings.ToLower(host[1:end])
		}
	}
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		host = host[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// queryValue returns the first value of the name in a query, as [url.Values] would have it, without reading it all.
func queryValue(query, name string) (string, bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" || strings.Contains(pair, ";") {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		if k != name {
			if !strings.ContainsAny(k, "%+") {
				continue
			}
			unescaped, err := url.QueryUnescape(k)
			if err != nil || unescaped != name {
				continue
			}
		}
		if value, err := url.QueryUnescape(v); err == nil {
			return value, true
		}
	}
	return "", false
}

// cookieValue returns the first value of the cookie.
func cookieValue(lines []string, name string) (string, bool) {
	for _, line := range lines {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			k, v, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || k != name {
				continue
			}
			if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
				v = v[1 : len(v)-1]
			}
			return v, true
		}
	}
	return "", false
}

// isPreflight reports whether a browser asks whether it may send another request.
func isPreflight(req Request) bool {
	return req.Method() == http.MethodOptions && len(req.Values("Origin")) > 0 && len(req.Values("Access-Control-Request-Method")) > 0
}
