package httplimit

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// exhausted reads a RateLimit field and returns the longest time, in seconds, for which nothing is left of a quota; 0 where
// there is something left of each. It is false for a field that is malformed, which must be ignored.
func exhausted(field string) (int64, bool) {
	longest := int64(0)
	s := structured{rest: strings.TrimLeft(field, " ")}
	for s.rest != "" {
		if !s.skipBareItem() {
			return 0, false
		}
		remaining, t, ok := s.available()
		if !ok {
			return 0, false
		}
		if remaining == 0 {
			longest = max(longest, t)
		}
		s.space()
		if s.rest == "" {
			break
		}
		if !s.take(',') {
			return 0, false
		}
		if s.space(); s.rest == "" {
			return 0, false // a comma at the end
		}
	}
	return longest, true
}

// structured reads a structured field from the left (RFC 9651). It knows what has a place in RateLimit: items with
// parameters, no inner lists.
type structured struct{ rest string }

func (s *structured) take(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// space skips what may stand around a comma.
func (s *structured) space() { s.rest = strings.TrimLeft(s.rest, " \t") }

// while takes the longest prefix of characters that ok accepts.
func (s *structured) while(ok func(c byte) bool) string {
	i := 0
	for i < len(s.rest) && ok(s.rest[i]) {
		i++
	}
	taken := s.rest[:i]
	s.rest = s.rest[i:]
	return taken
}

// available reads the parameters of an item. R is -1 where there is none, t 0. One that is given twice counts as the last.
func (s *structured) available() (r, t int64, ok bool) {
	const wrong = -2 // of another type than the draft says
	r = -1
	for s.take(';') {
		s.rest = strings.TrimLeft(s.rest, " ")
		key, ok := s.key()
		if !ok {
			return 0, 0, false
		}
		value := "" // of a true that is not written
		if s.take('=') {
			before := s.rest
			if !s.skipBareItem() {
				return 0, 0, false
			}
			value = before[:len(before)-len(s.rest)]
		}
		if key != "r" && key != "t" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			n = wrong
		}
		if key == "r" {
			r = n
		} else {
			t = n
		}
	}
	return r, t, r != wrong && t != wrong
}

func (s *structured) key() (string, bool) {
	if s.rest == "" || !isLower(s.rest[0]) && s.rest[0] != '*' {
		return "", false
	}
	return s.while(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }), true
}

// skipBareItem reads an item of any type and forgets it.
func (s *structured) skipBareItem() bool {
	if s.rest == "" {
		return false
	}
	switch c := s.rest[0]; {
	case c == '"':
		return s.skipString()
	case c == '-' || isDigit(c):
		return s.skipNumber()
	case c == '*' || isLower(c) || 'A' <= c && c <= 'Z':
		s.while(func(c byte) bool { return isTokenByte(c) || c == ':' || c == '/' })
		return true
	case c == '?':
		s.take('?')
		return s.take('0') || s.take('1')
	case c == ':':
		return s.skipBytes()
	case c == '%':
		return s.skipDisplayString()
	case c == '@': // a date
		s.take('@')
		before := s.rest
		return s.skipNumber() && !strings.Contains(before[:len(before)-len(s.rest)], ".")
	}
	return false
}

func (s *structured) skipString() bool {
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return true
		case c == '\\':
			if i++; i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				return false
			}
		case c < 0x20 || c > 0x7e:
			return false
		}
	}
	return false
}

// skipBytes reads a byte sequence in base64, as the draft's pk is.
func (s *structured) skipBytes() bool {
	text, rest, ok := strings.Cut(s.rest[1:], ":")
	if !ok || strings.ContainsAny(text, "\r\n") { // which the decoder would skip
		return false
	}
	s.rest = rest
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}

// skipDisplayString reads a string of UTF-8 whose bytes beyond ASCII are written in hex, in lower case.
func (s *structured) skipDisplayString() bool {
	text, rest, ok := strings.Cut(strings.TrimPrefix(s.rest, "%"), `"`)
	if !ok || text != "" {
		return false
	}
	text, s.rest, ok = strings.Cut(rest, `"`)
	if !ok || strings.ContainsFunc(text, func(c rune) bool { return c < 0x20 || c > 0x7e }) {
		return false
	}
	decoded, err := url.PathUnescape(text)
	if err != nil || !utf8.ValidString(decoded) {
		return false
	}
	for i := range len(text) {
		if text[i] == '%' && strings.ContainsAny(text[i:i+3], "ABCDEF") {
			return false
		}
	}
	return true
}

// skipNumber reads an integer of at most 15 digits, or a decimal of at most 12 and 3.
func (s *structured) skipNumber() bool {
	s.take('-')
	whole := len(s.while(isDigit))
	if whole == 0 || whole > 15 {
		return false
	}
	if !s.take('.') {
		return true
	}
	fraction := len(s.while(isDigit))
	return whole <= 12 && fraction >= 1 && fraction <= 3
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isTokenByte(c byte) bool {
	return isLower(c) || 'A' <= c && c <= 'Z' || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
