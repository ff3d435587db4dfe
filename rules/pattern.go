package rules

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// A pattern is what a value is held against. It is compiled from a text in which "*" stands for any characters but "/",
// "**" for any at all, and a backslash takes the meaning from "*", "!" and itself.
type pattern struct {
	kind patternKind
	// literal is the value of an exact pattern, and what comes before the first wildcard of a glob.
	literal string
	suffix  string // what comes after the only wildcard of a glob
	across  bool   // whether that wildcard is "**"
	rest    *lazyRegexp
	parts   []globPart   // of a glob
	block   netip.Prefix // of an address
}

type patternKind uint8

const (
	exactPattern patternKind = iota
	globPattern
	blockPattern
)

// globPart is a literal and the wildcard after it; the last has none.
type globPart struct {
	literal string
	stars   int // 0, 1 or 2
}

// lazyRegexp is compiled when it is first needed: a glob of several wildcards. It is linear in the value's length, which a
// client chooses.
type lazyRegexp struct {
	once sync.Once
	text string
	re   *regexp.Regexp
}

func (l *lazyRegexp) match(value string) bool {
	l.once.Do(func() { l.re = regexp.MustCompile(l.text) }) // made of quoted literals and two fixed expressions
	return l.re.MatchString(value)
}

// A patternError says what is wrong with a pattern, and what to write.
type patternError struct{ problem, hint string }

func (e *patternError) Error() string { return e.problem }

// maxPattern bounds a pattern, so that every one that was read can be compiled when it is needed.
const maxPattern = 1000

// newPattern compiles the text of a pattern, and reports whether it begins with "!".
func newPattern(attribute, text string) (p pattern, negated bool, err error) {
	if len(text) > maxPattern || !utf8.ValidString(text) {
		return p, false, &patternError{fmt.Sprintf("a value of %d bytes", len(text)), "write at most 1000, of UTF-8"}
	}
	text, negated = strings.CutPrefix(text, "!")
	if attribute == ipAttribute {
		p, err = newBlock(text)
		return p, negated, err
	}
	if p.parts, err = globParts(text); err != nil {
		return p, negated, err
	}
	p.literal = p.parts[0].literal
	switch len(p.parts) {
	case 1:
		p.kind = exactPattern
	case 2:
		p.kind, p.across, p.suffix = globPattern, p.parts[0].stars == 2, p.parts[1].literal
	default:
		p.kind, p.rest = globPattern, &lazyRegexp{text: globRegexp(p.parts)}
	}
	return p, negated, nil
}

// globParts takes the text apart at its wildcards.
func globParts(text string) ([]globPart, error) {
	var parts []globPart
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) || strings.IndexByte(`*!\`, text[i]) < 0 {
				return nil, &patternError{`a backslash before nothing that it takes the meaning from`,
					`write \*, \! or \\ for the sign itself`}
			}
			b.WriteByte(text[i])
		case '*':
			stars := 1
			for i+1 < len(text) && text[i+1] == '*' {
				stars++
				i++
			}
			if stars > 2 {
				return nil, &patternError{fmt.Sprintf("%d stars in a row", stars), `"*" stands for any characters but "/", "**" for any at all`}
			}
			parts = append(parts, globPart{b.String(), stars})
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(parts, globPart{literal: b.String()}), nil
}

// globRegexp writes the parts as a regular expression.
func globRegexp(parts []globPart) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for _, p := range parts {
		b.WriteString(regexp.QuoteMeta(p.literal))
		switch p.stars {
		case 1:
			b.WriteString(`[^/]*`)
		case 2:
			b.WriteString(".*")
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

// newBlock reads an address or a block of them.
func newBlock(text string) (pattern, error) {
	const hint = `write an address, or a block such as 10.0.0.0/8 or 2001:db8::/32`
	p := pattern{kind: blockPattern}
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		switch {
		case strings.Contains(text, "*"):
			return p, &patternError{fmt.Sprintf("%q is a glob, and addresses are matched by blocks", text), hint}
		case err != nil:
			return p, &patternError{fmt.Sprintf("%q is not an address", text), hint}
		case a.Zone() != "":
			return p, &patternError{fmt.Sprintf("%q has a zone, which addresses of clients lose", text), "leave out what begins with %"}
		}
		a = a.Unmap()
		p.block = netip.PrefixFrom(a, a.BitLen())
		return p, nil
	}
	block, err := netip.ParsePrefix(text)
	if err != nil {
		return p, &patternError{fmt.Sprintf("%q is not a block of addresses", text), hint}
	}
	if block != block.Masked() {
		return p, &patternError{fmt.Sprintf("%q has address bits behind its length", text), fmt.Sprintf("write %s for the block", block.Masked())}
	}
	p.block = unmapped(block)
	return p, nil
}

// fits reports whether the value is one that the pattern, which is not one of addresses, stands for.
func (p *pattern) fits(value string) bool {
	switch {
	case p.kind == exactPattern:
		return value == p.literal
	case !strings.HasPrefix(value, p.literal):
		return false
	case p.rest != nil:
		return p.rest.match(value)
	}
	middle := len(value) - len(p.suffix)
	return middle >= len(p.literal) && value[middle:] == p.suffix &&
		(p.across || strings.IndexByte(value[len(p.literal):middle], '/') < 0)
}

// covers reports whether p fits whatever q fits: true only where that is sure.
func (p *pattern) covers(q *pattern) bool {
	switch {
	case p.kind == blockPattern:
		return within(p.block, q.block)
	case q.kind == exactPattern:
		return p.fits(q.literal)
	case p.kind == exactPattern:
		return false
	}
	// Each wildcard of q becomes a character that only a wildcard of p can take up, and that of "**" only a "**": what
	// takes it up takes up all that q's wildcard stands for.
	var text strings.Builder
	for _, part := range q.parts {
		text.WriteString(part.literal)
		switch part.stars {
		case 1:
			text.WriteByte(oneStar)
		case 2:
			text.WriteByte(twoStars)
		}
	}
	return takesUp(p.parts, text.String())
}

// What stands for the wildcards of a glob that is held against another; no pattern has control characters.
const (
	oneStar  = '\x00'
	twoStars = '\x01'
)

// takesUp reports whether the parts fit a text in which wildcards are characters. It compiles nothing, since a file may have many
// pairs of globs; the steps are as many as the text has characters, for each part.
func takesUp(parts []globPart, text string) bool {
	first, last := parts[0].literal, parts[len(parts)-1].literal
	if !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	at := make([]bool, len(text)+1) // where what came before may end
	next := make([]bool, len(text)+1)
	at[0] = true
	for _, part := range parts {
		clear(next)
		for i, may := range at {
			if may && strings.HasPrefix(text[i:], part.literal) {
				next[i+len(part.literal)] = true
			}
		}
		for i := 0; part.stars > 0 && i < len(text); i++ {
			if next[i] && (part.stars == 2 || text[i] != '/' && text[i] != twoStars) {
				next[i+1] = true
			}
		}
		at, next = next, at
	}
	return at[len(text)]
}

// overlaps reports whether a value may fit both, where q is no glob.
func (p *pattern) overlaps(q *pattern) bool {
	if p.kind == blockPattern {
		return p.block.Overlaps(q.block)
	}
	return p.fits(q.literal)
}
