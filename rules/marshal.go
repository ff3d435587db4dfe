package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate"
)

// String writes the rule as [Set.Marshal] does, as an element of the list of rules.
func (r *Rule) String() string {
	var b strings.Builder
	line := func(indent, name, value string) { fmt.Fprintf(&b, "%s%s: %s\n", indent, name, value) }
	line("  - ", "name", quoted(r.Name))
	const in = "    "
	if len(r.Match) > 0 {
		line(in, "match", r.Match.String())
	}
	if len(r.Key) > 0 {
		line(in, "key", list(r.Key))
	}
	limit := func(l *Limit, first, in string) {
		line(first, "limit", l.String())
		if !l.Until.IsZero() {
			line(in, "then", l.Then.String())
		}
	}
	limit(&r.Limit, in, in)
	if len(r.Overrides) > 0 {
		b.WriteString(in + "overrides:\n")
		for i := range r.Overrides {
			o := &r.Overrides[i]
			line(in+"  - ", "match", o.Match.String())
			limit(&o.Limit, in+"    ", in+"    ")
		}
	}
	switch {
	case r.Cost.Attribute != "":
		line(in, "cost", textQuoted(r.Cost.Attribute))
	case r.Cost.Times > 1:
		line(in, "cost", strconv.FormatInt(r.Cost.Times, 10))
	}
	if r.OnStoreFailure != (tidegate.FailurePolicy{}) {
		line(in, "on_store_failure", r.OnStoreFailure.String())
	}
	switch {
	case r.Shadow:
		line(in, "shadow", "true")
	case r.Enforce != 1:
		line(in, "enforce", percent(r.Enforce))
	}
	if r.Missing == MissingDeny {
		line(in, "missing", "deny")
	}
	if r.Breaker != nil {
		b.WriteString(in + "breaker:\n" + r.Breaker.yaml(in+"  "))
	}
	if len(r.Tighten) > 0 {
		b.WriteString(in + "tighten:\n")
		for _, t := range r.Tighten {
			fmt.Fprintf(&b, "%s  - {breaker: %s, to: %s}\n", in, quoted(t.Breaker), percent(t.To))
		}
	}
	return b.String()
}

// yaml writes the breaker, each line after the indent.
func (k *Breaker) yaml(indent string) string {
	var b strings.Builder
	d := &defaultBreaker
	ratio := func(name string, v float64) {
		if v != 0 {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, percent(v))
		}
	}
	value := func(name string, v, standard any) {
		if v != standard {
			fmt.Fprintf(&b, "%s%s: %v\n", indent, name, v)
		}
	}
	ratio("failure_ratio", k.FailureRatio)
	ratio("slow_ratio", k.SlowRatio)
	value("slow_after", k.SlowAfter, time.Duration(0))
	ratio("refusal_ratio", k.RefusalRatio)
	value("window", k.Window, d.Window)
	value("minimum_calls", k.MinimumCalls, d.MinimumCalls)
	value("open_time", k.OpenTime, d.OpenTime)
	value("half_open_calls", k.HalfOpenCalls, d.HalfOpenCalls)
	value("ramp", k.Ramp, d.Ramp)
	return b.String()
}

// String writes the conditions as a file does, on one line.
func (m Match) String() string {
	parts := make([]string, len(m))
	for i := range m {
		value := list(m[i].Patterns)
		if len(m[i].Patterns) == 1 {
			value = quoted(m[i].Patterns[0])
		}
		parts[i] = quoted(m[i].Attribute) + ": " + value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func list(values []string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = quoted(v)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// percent writes a part of the whole, which was read with at most percentDecimals.
func percent(p float64) string {
	s := strconv.FormatFloat(p*100, 'f', percentDecimals, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + "%"
}

// quoted writes a scalar that is read back to the same text, bare where that is sure.
func quoted(s string) string {
	bare := s != "" && !strings.EqualFold(s, "null")
	for i, r := range s {
		letter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '/' || r == '.'
		if !letter && (i == 0 || r != '-' && r != '*') {
			bare = false
			break
		}
	}
	if bare {
		return s
	}
	return doubleQuoted(s)
}

// textQuoted is quoted for a text that must not be taken for a number or a flag.
func textQuoted(s string) string {
	q := quoted(s)
	var n yaml.Node
	if q == s && (yaml.Unmarshal([]byte(s), &n) != nil || len(n.Content) != 1 || n.Content[0].Tag != "!!str") {
		return doubleQuoted(s)
	}
	return q
}

func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == utf8.RuneError && s[i] != "\ufffd"[0]:
			b.WriteByte(s[i]) // no text: so that reading it says so
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
