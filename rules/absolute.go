package rules

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate"
)

// Absolute makes durations after "until" moments: of "unlimited until 3s" that ends 3 s after now, in UTC, and where the
// limit has no "then", it is given the one that the rule of the name (the override of the same conditions) has in the
// former set: what lasts of it. Everything else of the text stays as it is, comments too.
//
// It is for what is pushed: a file itself can only hold moments, since nobody knows when it was written. The error is
// [Errors], with the positions of data; former may be nil, for none. The text it returns is one that [Parse] takes.
func Absolute(file string, data []byte, now time.Time, former *Set) ([]byte, error) {
	d := &decoder{file: file, relax: true}
	if _, err := d.parse(data); err != nil {
		return nil, err
	}
	if len(d.ends) == 0 {
		return data, nil
	}
	lines := lineStarts(data)
	var edits []edit
	seen := map[*yaml.Node]bool{} // a node that aliases share is written once
	for i := range d.ends {
		e := &d.ends[i]
		if seen[e.limit] {
			continue
		}
		seen[e.limit] = true
		found, err := d.edits(data, lines, e, now, former)
		if err != nil {
			d.errs = append(d.errs, err)
		}
		edits = append(edits, found...)
	}
	if len(d.errs) > 0 {
		return nil, d.errs
	}
	out := apply(data, edits)
	if _, err := Parse(file, out); err != nil {
		return nil, err
	}
	return out, nil
}

// edit puts text in the place of the bytes from, to.
type edit struct {
	from, to int
	text     string
}

func apply(data []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, data[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, data[at:]...)
}

// edits returns what one limit with an end needs.
func (d *decoder) edits(data []byte, lines []int, e *end, now time.Time, former *Set) ([]edit, *Error) {
	wrong := func(problem, hint string) *Error {
		return &Error{File: d.file, Line: e.limit.Line, Column: e.limit.Column, Kind: KindMissing, Rule: e.rule.Name, Problem: problem, Hint: hint}
	}
	var edits []edit
	if e.after > 0 {
		from := offset(data, lines, e.until)
		i := valueIndex(data[from:], e)
		if i < 0 {
			return nil, wrong("the end of the limit cannot be rewritten where it is", `write the limit on one line, as in "limit: unlimited until 3s"`)
		}
		at := now.Add(e.after).UTC().Truncate(time.Microsecond)
		edits = append(edits, edit{from + i, from + i + len(e.text), at.Format(time.RFC3339Nano)})
	}
	if e.then {
		return edits, nil
	}
	then, ok := lasting(former, e)
	if !ok {
		return nil, wrong("nothing says what counts when the limit has ended", `the rule is new: write "then" beside "limit", as in "then: 600/s burst 100"`)
	}
	if e.parent.Style&yaml.FlowStyle != 0 {
		from := offset(data, lines, e.parent)
		return append(edits, edit{from + 1, from + 1, "then: " + then.String() + ", "}), nil
	}
	// A line of its own before the first key of the mapping, which so moves to the next line, at the same column.
	from := offset(data, lines, e.parent)
	return append(edits, edit{from, from, "then: " + then.String() + "\n" + strings.Repeat(" ", e.parent.Column-1)}), nil
}

// lasting is what lasts of the limit that the former set has in this place.
func lasting(former *Set, e *end) (tidegate.Limit, bool) {
	if former == nil || former.Rule(e.rule.Name) == nil {
		return tidegate.Limit{}, false
	}
	r := former.Rule(e.rule.Name)
	l := &r.Limit
	if e.override != nil {
		// A new override ends as what counted for its keys before: the rule's own limit.
		for i := range r.Overrides {
			if r.Overrides[i].Match.String() == e.override.Match.String() {
				l = &r.Overrides[i].Limit
			}
		}
	}
	if l.Until.IsZero() {
		return l.Limit, true
	}
	return l.Then, true
}

// valueIndex finds the value of "until" in text, which begins where the limit, or the value, does; -1 if it is not there
// as it was read.
func valueIndex(text []byte, e *end) int {
	i := 0
	if e.until == e.limit { // the short form: after the word
		word := indexFold(text, "until")
		if word < 0 {
			return -1
		}
		i = word + len("until")
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
	} else if i < len(text) && (text[0] == '"' || text[0] == '\'') {
		i++
	}
	if !bytes.HasPrefix(text[i:], []byte(e.text)) {
		return -1
	}
	return i
}

// indexFold finds the word in the first line of the text, whatever its case.
func indexFold(text []byte, word string) int {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	for i := 0; i+len(word) <= len(line); i++ {
		if strings.EqualFold(string(line[i:i+len(word)]), word) {
			return i
		}
	}
	return -1
}

// lineStarts returns the offsets of the lines.
func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// offset is where the node begins.
func offset(data []byte, lines []int, n *yaml.Node) int {
	at := lines[min(n.Line, len(lines))-1]
	if at == 0 && bytes.HasPrefix(data, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}

// A limit that ends is told in the words of the file.
var _ fmt.Stringer = Limit{}
