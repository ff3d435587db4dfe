package key

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// MaxLen is the length in bytes up to which a text is kept as it is.
const MaxLen = 200

const hex = "0123456789ABCDEF"

// Join makes one key of the parts of a key of several parts. A key of one part is the part itself, and one of no parts is
// empty; a rule has a fixed number of parts, so that the three cannot meet in one rule.
func Join(parts []string) string {
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	}
	var b []byte
	for i, p := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = appendEscaped(b, p, '/')
	}
	return string(b)
}

// AppendBucket appends the text "rule/key" to dst, escaped, so that two buckets never have one text. A text of more than
// MaxLen bytes becomes "rule/%#" and the base64url of a SHA-256 over rule and key; a rule too long for that is hashed along.
func AppendBucket(dst []byte, rule, key string) []byte {
	start := len(dst)
	dst = appendEscaped(dst, rule, '/')
	ruleEnd := len(dst)
	dst = append(dst, '/')
	dst = appendEscaped(dst, key, '%') // the first slash ends the rule, so that those of the key may stay
	if len(dst)-start <= MaxLen {
		return dst
	}
	sum := sha256.Sum256(dst[start:])
	if ruleEnd-start > MaxLen/2 {
		ruleEnd = start
	}
	// A % is always followed by two hexadecimal digits above, so %# cannot be read as part of an escaped text.
	dst = append(dst[:ruleEnd], "/%#"...)
	return base64.RawURLEncoding.AppendEncode(dst, sum[:])
}

// AppendSecret appends "%~" and the base64url of an HMAC-SHA-256 under the secret over the bucket's text, so that
// neither rule nor key can be read from it.
func AppendSecret(dst, secret []byte, rule, key string) []byte {
	mac := hmac.New(sha256.New, secret)
	// The escaped text, uncut: hashing a hash would be as good, but this needs no argument.
	text := appendEscaped(nil, rule, '/')
	text = append(text, '/')
	text = append(text, key...)
	mac.Write(text)
	dst = append(dst, "%~"...)
	return base64.RawURLEncoding.AppendEncode(dst, mac.Sum(nil))
}

// plain tells the bytes that are kept as they are wherever they stand: those that show in a terminal, but for % and /.
// Bytes above 127 are kept, so that names in any script can be read.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && c != 0x7f && c != '%' && c != '/'
	}
	return t
}()

// appendEscaped appends s with %, sep and every byte that does not show in a terminal as % and two digits.
func appendEscaped(dst []byte, s string, sep byte) []byte {
	kept := 0
	for i := range len(s) {
		if c := s[i]; !plain[c] && (c != '/' || sep == '/') {
			dst = append(append(dst, s[kept:i]...), '%', hex[c>>4], hex[c&15])
			kept = i + 1
		}
	}
	return append(dst, s[kept:]...)
}

// Rule returns the rule of the text that AppendBucket writes for an empty key, where it stands in it.
func Rule(text string) (rule string, ok bool) {
	text, ok = strings.CutSuffix(text, "/")
	if !ok {
		return "", false
	}
	return unescaped(text)
}

// Split returns the parts that [Join] made a key of, so many; false if it makes no such key of so many.
func Split(joined string, n int) (parts []string, ok bool) {
	switch n {
	case 0:
		return nil, joined == ""
	case 1:
		return []string{joined}, true
	}
	for text := range strings.SplitSeq(joined, "/") {
		part, ok := unescaped(text)
		if !ok {
			return nil, false
		}
		parts = append(parts, part)
	}
	return parts, len(parts) == n && Join(parts) == joined
}

// unescaped reads what appendEscaped wrote.
func unescaped(text string) (s string, ok bool) {
	var b []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b = append(b, text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(n))
		i += 2
	}
	return string(b), true
}
