package replay

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/server/internal/accesslog"
)

// request is a line of a log as the middleware would have seen the request.
type request struct {
	*accesslog.Entry
}

var _ httplimit.Request = request{}

func (r request) field(name string) string {
	v, _ := r.Field(name)
	return v
}

// Method returns the method.
func (r request) Method() string { return r.field(accesslog.Method) }

// Host returns the host, with a port if there was one.
func (r request) Host() string { return r.field(accesslog.Host) }

// Path returns the path, decoded.
func (r request) Path() string {
	path := r.field(accesslog.Path)
	if !strings.Contains(path, "%") {
		return path
	}
	if decoded, err := url.PathUnescape(path); err == nil {
		return decoded
	}
	return path
}

// Pattern returns none: a log knows of no mux.
func (r request) Pattern() string { return "" }

// RemoteAddr returns the address at the socket. A log that has none, as Envoy's by default, has the one that the proxy which wrote it
// added to X-Forwarded-For: the last.
func (r request) RemoteAddr() string {
	if a, ok := r.Field(accesslog.Address); ok {
		return a
	}
	lines := r.field(accesslog.HeaderPrefix + "x_forwarded_for")
	return strings.TrimSpace(lines[strings.LastIndexByte(lines, ',')+1:])
}

// Values returns the lines of a header, which logs join to one.
func (r request) Values(name string) []string {
	if v, ok := r.Field(accesslog.HeaderPrefix + strings.ReplaceAll(strings.ToLower(name), "-", "_")); ok {
		return []string{v}
	}
	return nil
}

// Query returns the query.
func (r request) Query() string { return r.field(accesslog.Query) }

// HTTP returns nil: there is none.
func (r request) HTTP() *http.Request { return nil }

// attributes are those that the middleware gives, those that were mapped, and the fields of the log by their names.
type attributes struct {
	tidegate.Attributes // the middleware's

	entry  *accesslog.Entry
	mapped map[string]string
}

// Attribute returns the value of the attribute.
func (a *attributes) Attribute(name string) (string, bool) {
	if field, ok := a.mapped[name]; ok {
		return a.entry.Field(field)
	}
	if v, ok := a.Attributes.Attribute(name); ok {
		return v, true
	}
	if v, ok := a.entry.Field(name); ok {
		return v, true
	}
	if name == "user" {
		return a.entry.Field(accesslog.User)
	}
	return "", false
}

// Mapping is what --map says: the fields that attributes are taken from.
type Mapping struct {
	// Attributes maps an attribute to the field that it is taken from.
	Attributes map[string]string
	// Time is the field that the time is taken from; empty for the format's own.
	Time string
}

// ParseMapping reads attr=field pairs. A field "header.X" is the header's, as in logs that have it.
func ParseMapping(pairs []string) (Mapping, error) {
	m := Mapping{Attributes: map[string]string{}}
	for _, pair := range pairs {
		name, field, ok := strings.Cut(pair, "=")
		if !ok || name == "" || field == "" {
			return m, fmt.Errorf("--map %q: write an attribute and the field of the log that it is taken from, such as user=remote_user", pair)
		}
		if header, ok := strings.CutPrefix(field, "header."); ok {
			field = accesslog.HeaderPrefix + strings.ReplaceAll(strings.ToLower(textproto.TrimString(header)), "-", "_")
		}
		switch former := m.Attributes[name]; {
		case name == "time":
			m.Time = field
		case former != "" && former != field:
			return m, fmt.Errorf("--map says twice where %s is taken from: %s and %s", name, former, field)
		default:
			m.Attributes[name] = field
		}
	}
	return m, nil
}
