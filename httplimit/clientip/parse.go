package clientip

import (
	"net/netip"
	"strings"
)

// maxText is longer than any address with zone and port that is one.
const maxText = 128

// parseAddr reads an address, with or without a port, brackets and a zone, and returns it unmapped and without the zone.
// The text is that part of s which is the address's shortest form, empty where that is unknown: an IPv4 address has
// but one form.
func parseAddr(s string) (netip.Addr, string) {
	if len(s) > maxText {
		return netip.Addr{}, ""
	}
	host := s
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isPort(s[end+1:]) {
			return netip.Addr{}, ""
		}
		host = s[1:end]
		if !strings.Contains(host, ":") {
			return netip.Addr{}, "" // brackets are for IPv6
		}
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && colon == strings.LastIndexByte(s, ':') {
		if !isPort(s[colon:]) {
			return netip.Addr{}, ""
		}
		host = s[:colon]
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, ""
	}
	if a.Is4() {
		return a, host
	}
	return a.WithZone("").Unmap(), ""
}

// isPort reports whether s is nothing, or a colon and a port.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) > 6 {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// trim removes the white space that may stand around an entry.
func trim(s string) string { return strings.Trim(s, " \t") }

// entries goes through the lines of a header from the right to the left.
type entries struct {
	lines     []string // those that were not begun
	rest      string   // what is left of the one that was
	open      bool
	long      bool // whether the line is so long that a key must not keep it in memory
	forwarded bool
}

// next returns the entry to the left of the last one. Empty ones are none, as in every list of HTTP.
func (e *entries) next() (string, bool) {
	for {
		if !e.open {
			if len(e.lines) == 0 {
				return "", false
			}
			e.rest, e.open = e.lines[len(e.lines)-1], true
			e.long = len(e.rest) > 2*maxText
			e.lines = e.lines[:len(e.lines)-1]
		}
		comma := e.comma()
		entry := trim(e.rest[comma+1:])
		if comma < 0 {
			e.open = false
		} else {
			e.rest = e.rest[:comma]
		}
		if entry != "" {
			return entry, true
		}
	}
}

// comma finds the last one in the rest that separates, or -1. One in a quoted string does not; looked at from the right,
// so that a quote that the client opened and never closed cannot hide what the proxies appended.
func (e *entries) comma() int {
	if !e.forwarded {
		return strings.LastIndexByte(e.rest, ',')
	}
	quoted := false
	for i := len(e.rest) - 1; i >= 0; i-- {
		switch e.rest[i] {
		case '"':
			if !quoted || !escaped(e.rest, i) {
				quoted = !quoted
			}
		case ',':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(s string, i int) bool {
	n := 0
	for i > n && s[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// parse reads the address of an entry. An unspecified one is nobody's.
func (e *entries) parse(entry string) (netip.Addr, string) {
	if e.forwarded {
		var ok bool
		if entry, ok = forParameter(entry); !ok {
			return netip.Addr{}, ""
		}
	}
	a, text := parseAddr(entry)
	if a.IsUnspecified() {
		return netip.Addr{}, ""
	}
	if e.long {
		text = ""
	}
	return a, text
}

// forParameter returns the value of "for" in an element of Forwarded; false if there is none, or two, or the element is
// malformed.
func forParameter(element string) (string, bool) {
	value, found := "", false
	for rest := element; ; {
		rest = strings.TrimLeft(rest, " \t")
		eq := strings.IndexByte(rest, '=')
		if eq <= 0 || strings.ContainsFunc(rest[:eq], func(c rune) bool { return !isToken(c) }) {
			return "", false
		}
		name := rest[:eq]
		v, after, ok := forwardedValue(rest[eq+1:])
		if !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return "", false
			}
			value, found = v, true
		}
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			return value, found
		}
		if after[0] != ';' {
			return "", false
		}
		if rest = after[1:]; trim(rest) == "" {
			return value, found // some end with a semicolon
		}
	}
}

// forwardedValue reads a token or a quoted string, and returns what follows. Addresses are taken unquoted, too, as
// many proxies write them.
func forwardedValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t;\"")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return s[1:i], s[i+1:], true
		case '\\':
			return quotedValue(s)
		}
	}
	return "", "", false
}

// quotedValue reads a quoted string that has escapes in it.
func quotedValue(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
