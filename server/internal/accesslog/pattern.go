package accesslog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Format reads the lines of one file, in their order.
type Format interface {
	// Read reads a line, without its end, into the entry, which it empties first. The error says what is wrong with the line.
	Read(line string, e *Entry) error
}

// ErrHeading is the answer to a line that says something about the lines after it. It is no request, and no fault.
var ErrHeading = errors.New("a heading")

// errWrapped is of a line in quotes of its own, which would else be the first of an address or a user.
var errWrapped = errors.New("the line begins with a quote that the format does not have, as if exported from a table: replay the log as it was written")

// pattern is a Format of texts between variables.
type pattern struct {
	name  string
	parts []part
	more  bool // whether columns may follow
}

// part is a text and the variable after it.
type part struct {
	before string
	name   string // of the field; empty for a variable that nobody wants
	kind   kind
	ends   string // the text after the variable; empty where it goes to the end of the line
	quoted bool   // whether it is between quotes, where a backslash takes its meaning from what follows
	spaces bool   // whether it may have spaces in it, though one ends it
	list   bool   // whether it may be several, with commas or colons between
}

// kind says what the value of a variable is made into.
type kind uint8

const (
	plain     kind = iota
	when           // the time
	began          // the time when the request began
	request        // method, target and protocol
	target         // path and query
	hostPort       // an address with a port
	code           // of the answer
	forgotten      // nothing
)

// variables are those of nginx whose value is more than a field of the same name.
var variables = map[string]struct {
	name string
	kind kind
}{
	"time_local":         {"", when},
	"time_iso8601":       {"", when},
	"msec":               {"", when},
	"request":            {"", request},
	"request_method":     {Method, plain},
	"request_uri":        {"", target},
	"uri":                {"", target},
	"args":               {Query, plain},
	"query_string":       {Query, plain},
	"server_protocol":    {Protocol, plain},
	"http_host":          {Host, plain},
	"realip_remote_addr": {"realip_remote_addr", plain},
	"binary_remote_addr": {"", forgotten},
	"remote_addr_port":   {Address, hostPort},
	"time":               {"", when},
	"start_time":         {"", began},
	"target":             {"", target},
	"status":             {Status, code},
}

// Compile returns the format that a format string as nginx has them describes: $variables and the text between them, such as
//
//	$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
//
// One variable has to be a time: $time_local, $time_iso8601, $msec or $time. A variable between double quotes may hold what is
// escaped by a backslash. Without quotes a space ends it, but in those where nginx itself writes spaces: a time, a request, and what may be
// several, as $upstream_addr. The error says what is wrong with the string.
func Compile(format string) (Format, error) {
	return compile("this format", format, false)
}

func compile(name, format string, more bool) (*pattern, error) {
	p := &pattern{name: name, more: more}
	rest := format
	timed := false
	for rest != "" {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			break
		}
		before := rest[:at]
		variable, after := variableAt(rest[at+1:])
		if variable == "" {
			return nil, fmt.Errorf("a $ without a name after it: write a variable such as $remote_addr, or ${remote_addr} before a letter")
		}
		if len(p.parts) > 0 && before == "" {
			return nil, fmt.Errorf("$%s follows another variable at once: nothing tells where the one ends and the other begins", variable)
		}
		pt := part{before: before, name: variable}
		if v, ok := variables[variable]; ok {
			pt.name, pt.kind = v.name, v.kind
		}
		timed = timed || pt.kind == when || pt.kind == began
		p.parts = append(p.parts, pt)
		rest = after
	}
	switch {
	case len(p.parts) == 0:
		return nil, errors.New("there is no variable in it: write for example '$remote_addr [$time_local] \"$request\" $status'")
	case !timed:
		return nil, errors.New("there is no time in it: one variable has to be $time_local, $time_iso8601, $msec or $time")
	}
	for i := range p.parts {
		pt := &p.parts[i]
		pt.ends = rest
		if i+1 < len(p.parts) {
			pt.ends = p.parts[i+1].before
		}
		pt.quoted = strings.HasSuffix(pt.before, `"`) && strings.HasPrefix(pt.ends, `"`)
		pt.spaces = pt.name == User || pt.ends == "" && !more && pt.name != Address && pt.kind != code
		pt.list = strings.HasPrefix(pt.name, "upstream_") || pt.name == "http_x_forwarded_for" || pt.name == "proxy_add_x_forwarded_for"
	}
	return p, nil
}

// variableAt returns the name of the variable that a text begins with, after its $, and what follows.
func variableAt(text string) (name, rest string) {
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		name, rest, ok = strings.Cut(inner, "}")
		if !ok || strings.ContainsFunc(name, notName) {
			return "", text
		}
		return name, rest
	}
	end := strings.IndexFunc(text, notName)
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

func notName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
}

// Read implements [Format].
func (p *pattern) Read(line string, e *Entry) error {
	e.reset(len(p.parts) + 4)
	if p.parts[0].before == "" && strings.HasPrefix(line, `"`) {
		return errWrapped
	}
	rest := line
	for i := range p.parts {
		pt := &p.parts[i]
		var ok bool
		if rest, ok = strings.CutPrefix(rest, pt.before); !ok {
			return p.wrong(line, rest, pt.before)
		}
		value, after, err := pt.value(rest)
		if err != nil {
			return fmt.Errorf("column %d: %w", len(line)-len(rest)+1, err)
		}
		if err := e.fill(pt.kind, pt.name, value); err != nil {
			return fmt.Errorf("column %d: %w", len(line)-len(rest)+1, err)
		}
		rest = after
	}
	end := p.parts[len(p.parts)-1].ends
	rest, ok := strings.CutPrefix(rest, end)
	switch {
	case !ok:
		return p.wrong(line, rest, end)
	case rest == "" || p.more && rest[0] == ' ':
		return nil
	}
	return fmt.Errorf("column %d: the line goes on where %s ends: %s", len(line)-len(rest)+1, p.name, quoted(rest))
}

func (p *pattern) wrong(line, rest, want string) error {
	if strings.HasPrefix(want, rest) {
		return fmt.Errorf("the line ends where %s has %s", p.name, quoted(want))
	}
	return fmt.Errorf("column %d: %s where %s has %s", len(line)-len(rest)+1, quoted(rest[:min(len(rest), len(want)+8)]), p.name, quoted(want))
}

// value returns the value that a text begins with.
func (pt *part) value(text string) (value, rest string, err error) {
	switch {
	case pt.quoted:
		return unquote(text)
	case pt.ends == "" && pt.spaces:
		return text, "", nil
	case pt.ends == "" || pt.ends[0] == ' ' && !pt.spaces:
		end, err := pt.words(text)
		return text[:end], text[end:], err
	}
	at := strings.Index(text, pt.ends)
	if at < 0 {
		return "", "", fmt.Errorf("no %s after %s", quoted(pt.ends), quoted(text))
	}
	return text[:at], text[at:], nil
}

// words returns where a value without quotes ends, which a space does where it is not nginx's own.
func (pt *part) words(text string) (end int, err error) {
	word := func(from int) int { // where the word that begins there ends
		if at := strings.IndexByte(text[from:], ' '); at >= 0 {
			return from + at
		}
		return len(text)
	}
	end = word(0)
	switch {
	case pt.kind == when || pt.kind == began: // 02/Jan/2006:15:04:05 -0700
		if next := word(min(end+1, len(text))); isZone(text[min(end+1, len(text)):next]) {
			end = next
		}
	case pt.kind == request && text[:end] != "-": // GET /path HTTP/1.1
		at := strings.Index(text, " HTTP/")
		if at < 0 {
			return 0, fmt.Errorf("nothing tells where the request %s ends: put quotes around $request in the log's format", quoted(text))
		}
		end = word(at + 1)
	case pt.list: // 192.0.2.1:80, 192.0.2.2:80 : 192.0.2.3:80, of which the last is another group's
		for {
			switch {
			case text[:end] != "" && text[end-1] == ',' && end < len(text):
				end = word(end + 1)
			case strings.HasPrefix(text[end:], " : ") && !strings.HasPrefix(pt.ends, " : "):
				end = word(end + 3)
			default:
				return end, nil
			}
		}
	}
	return end, nil
}

// isZone reports whether a word is an offset such as +0100.
func isZone(word string) bool {
	return len(word) == 5 && (word[0] == '+' || word[0] == '-') && number(word[1:]) >= 0
}

// unquote returns what stands before the closing quote, which stays, with its escapes as nginx (\x22) and Apache (\") mean them.
func unquote(text string) (value, rest string, err error) {
	end := strings.IndexByte(text, '"')
	if end < 0 {
		return "", "", fmt.Errorf("no closing quote after %s", quoted(text))
	}
	if strings.IndexByte(text[:end], '\\') < 0 {
		return text[:end], text[end:], nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i:], nil
		case c != '\\' || i+1 == len(text):
			b.WriteByte(c)
		default:
			i += escaped(&b, text[i+1:])
		}
	}
	return "", "", fmt.Errorf("no closing quote after %s", quoted(text))
}

// escaped writes what an escape means, of which the backslash was read, and returns how long the rest of it is. An escape that
// nobody has defined stays as it is.
func escaped(b *strings.Builder, text string) int {
	switch text[0] {
	case '"', '\\', '/':
		b.WriteByte(text[0])
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'v':
		b.WriteByte('\v')
	case 'f':
		b.WriteByte('\f')
	case 'b':
		b.WriteByte('\b')
	case 'x':
		if len(text) >= 3 {
			if n, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				return 3
			}
		}
		b.WriteString(`\x`)
	default:
		b.WriteByte('\\')
		b.WriteByte(text[0])
	}
	return 1
}
