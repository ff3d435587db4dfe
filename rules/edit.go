package rules

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v4"
)

// WithLimit returns the file with another limit for the rule of that name, as a file has it in its short form: "10/s burst
// 20", or with a duration, "unlimited until 300s", for [Absolute] to make a moment of. Overrides and everything else stay;
// so do comments and layout, where the limit stands on one line, else the file is written anew as [Set.Marshal] does.
//
// What counted before, for a limit that ends, is left to Absolute; a limit without an end loses the "then" of the one before.
// Data must be a file that [Parse] takes, or the error is its; a rule that is not there is an [*UnknownRuleError]. Whether
// the limit is good shows when the result is parsed.
func WithLimit(file string, data []byte, rule, limit string) ([]byte, error) {
	set, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	if set.Rule(rule) == nil {
		return nil, &UnknownRuleError{Rule: rule}
	}
	if out, ok := withLimit(data, rule, limit); ok && changesOnly(set, out, rule) {
		return out, nil
	}
	out, _ := withLimit(set.Marshal(), rule, limit) // where each limit stands on a line of its own
	return out, nil
}

// changesOnly reports whether a file differs from the set in that rule alone. One with mistakes counts as such: its limit is
// bad, and whoever parses it says so.
func changesOnly(set *Set, data []byte, rule string) bool {
	d := &decoder{file: set.file, relax: true}
	after, err := d.parse(data)
	if err != nil {
		return true
	}
	for _, c := range Diff(set, newSet(set.file, after)) {
		if c.Rule != rule {
			return false
		}
	}
	return true
}

// withLimit edits the text, if it finds the limit where it can be replaced.
func withLimit(data []byte, rule, limit string) ([]byte, bool) {
	m := ruleNode(data, rule)
	if m == nil {
		return nil, false
	}
	lines := lineStarts(data)
	var edits []edit
	for i := 0; i+1 < len(m.Content); i += 2 {
		name, value := m.Content[i], m.Content[i+1]
		switch name.Value {
		case "limit":
			from, to, ok := extent(data, lines, value)
			if !ok {
				return nil, false
			}
			edits = append(edits, edit{from, to, limitScalar(limit)})
		case "then":
			if ends(limit) {
				continue // what lasts is still that
			}
			if i+2 >= len(m.Content) {
				return nil, false // the last key, after which nothing says where it ends
			}
			edits = append(edits, edit{offset(data, lines, name), offset(data, lines, m.Content[i+2]), ""})
		}
	}
	return apply(data, edits), len(edits) > 0
}

// ruleNode finds the mapping of a rule; nil if it is not there as such.
func ruleNode(data []byte, rule string) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	rules := member(doc.Content[0], "rules")
	if rules == nil || rules.Kind != yaml.SequenceNode {
		return nil
	}
	for _, r := range rules.Content {
		if name := member(r, "name"); name != nil && name.Value == rule {
			return r
		}
	}
	return nil
}

func member(m *yaml.Node, name string) *yaml.Node {
	if m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}

// extent is where a scalar stands; false for all that does not stand on one line as it was read, or that others refer to.
func extent(data []byte, lines []int, n *yaml.Node) (from, to int, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Anchor != "" {
		return 0, 0, false
	}
	from = offset(data, lines, n)
	text := n.Value
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		text = `"` + text + `"`
	case n.Style&yaml.SingleQuotedStyle != 0:
		text = `'` + text + `'`
	}
	return from, from + len(text), n.Value != "" && bytes.HasPrefix(data[from:], []byte(text))
}

// ends reports whether a limit has an end.
func ends(limit string) bool {
	for word := range strings.FieldsSeq(limit) {
		if strings.EqualFold(word, "until") {
			return true
		}
	}
	return false
}

// limitScalar writes a limit bare, as people do, where YAML reads that as it is.
func limitScalar(limit string) string {
	for i, r := range limit {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || i == len(limit)-1 || !strings.ContainsRune(" /.:+-_", r)) || strings.HasPrefix(limit[i:], ": ") {
			return doubleQuoted(limit)
		}
	}
	if limit == "" {
		return `""`
	}
	return limit
}
