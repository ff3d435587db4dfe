package accesslog

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

var errNoRequest = errors.New("the request is empty: the client sent none")

// fill makes fields of a value.
func (e *Entry) fill(k kind, name, value string) error {
	switch k {
	case when:
		return e.setTime(value)
	case began:
		e.AtStart = true
		return e.setTime(value)
	case request:
		return e.request(value)
	case target:
		return e.target(value)
	case hostPort:
		e.add(name, withoutPort(value))
	case code:
		if value != "-" && (len(value) > 3 || number(value) < 0) {
			return fmt.Errorf("%s is no status: a column before it may hold a space that ends it too early", quoted(value))
		}
		e.add(name, value)
	case plain:
		e.add(name, value)
	case forgotten:
	}
	return nil
}

// request reads "GET /path?query HTTP/1.1". What is between the first and the last space is the target, whatever it is.
func (e *Entry) request(line string) error {
	if line == "" || line == "-" {
		return errNoRequest
	}
	method, rest, ok := strings.Cut(line, " ")
	if method == "-" { // a load balancer's way to say so
		return errNoRequest
	}
	if !ok || !isToken(method) {
		return fmt.Errorf("%s is no request: GET /path HTTP/1.1 would be one", quoted(line))
	}
	to, protocol := rest, ""
	if at := strings.LastIndexByte(rest, ' '); at >= 0 && strings.HasPrefix(rest[at+1:], "HTTP/") {
		to, protocol = rest[:at], rest[at+1:]
	}
	e.add(Method, method)
	if method == "CONNECT" && !strings.HasPrefix(to, "/") && to != "" {
		e.add(Host, to) // the host to connect to: there is no path
	} else if err := e.target(to); err != nil {
		return err
	}
	e.add(Protocol, protocol)
	return nil
}

// target reads what a request asks for, as net/http reads it of a request: /path?query, a whole URL, or the * of OPTIONS. There is
// no fragment in one, so that a # stands for itself.
func (e *Entry) target(to string) error {
	switch {
	case to == "" || to == "-":
		return errNoRequest
	case isURL(to):
		u, err := url.ParseRequestURI(to)
		if err != nil {
			return fmt.Errorf("%s cannot be read as a URL", quoted(to))
		}
		e.add(Host, u.Host)
		to = u.EscapedPath()
		if to == "" {
			to = "/"
		}
		e.add(Path, to)
		e.add(Query, u.RawQuery)
		return nil
	}
	path, query, _ := strings.Cut(to, "?")
	e.add(Path, path)
	e.add(Query, query)
	return nil
}

// isURL reports whether a target is a whole URL, and not a path or a query with one in it.
func isURL(to string) bool {
	at := strings.Index(to, "://")
	return at > 0 && !strings.ContainsAny(to[:at], "/?#")
}

// isToken reports whether the text could be a method.
func isToken(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}

// withoutPort returns an address without its port. An IPv6 address has brackets where a port follows, but not in every log.
func withoutPort(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	if at := strings.LastIndexByte(s, ':'); at >= 0 {
		if _, err := netip.ParseAddr(s[:at]); err == nil && strings.Count(s, ":") == 8 {
			return s[:at] // eight groups of an address, and a port
		}
	}
	return strings.Trim(s, "[]")
}
