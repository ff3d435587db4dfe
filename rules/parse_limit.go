package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate"
)

// maxLimitText is longer than any limit, and short enough to be shown.
const maxLimitText = 300

// end is a limit that has one, in text that may say it as a duration.
type end struct {
	rule     *Rule
	override *Override  // nil for the rule's own
	limit    *yaml.Node // the limit
	until    *yaml.Node // where "until" and its value are written: the limit itself in its short form
	parent   *yaml.Node // the mapping that has the limit
	text     string     // the value
	after    time.Duration
	then     bool // whether the parent says what comes then
}

// limit reads "limit" and "then" of a rule or an override, whose node is n.
func (d *decoder) limit(n *yaml.Node, fields map[string]field, r *Rule, o *Override) Limit {
	f, ok := fields["limit"]
	if !ok {
		d.fail(n, KindMissing, "the limit is missing", `write for example "limit: 600/s burst 100"`)
		return Limit{}
	}
	text, until, ok := d.limitText(f.value)
	if !ok {
		return Limit{}
	}
	var l Limit
	good := true
	if l.Limit, ok = d.parseLimit(f.value, text); !ok {
		good = false
	}
	then, hasThen := fields["then"]
	if hasThen {
		thenText, thenUntil, ok := d.limitText(then.value)
		switch {
		case !ok:
			good = false
		case thenUntil != nil:
			d.fail(target(then.value), KindValue, `"then" has an end itself`, `write the limit that counts from then on, without "until"`)
			good = false
		default:
			if l.Then, ok = d.parseLimit(then.value, thenText); !ok {
				good = false
			}
		}
	}
	switch {
	case until == nil && hasThen:
		d.fail(then.key, KindValue, `"then" beside a limit that does not end`, `say when, as in "limit: unlimited until 2026-12-01T00:00:00Z"`)
		good = false
	case until != nil:
		e := end{rule: r, override: o, limit: target(f.value), until: until.node, parent: n, text: until.text, then: hasThen}
		if !d.until(&l, &e, hasThen) {
			good = false
		}
	}
	if good {
		d.checkCost(f.value, r, &l)
	}
	return l
}

// until reads the end of a limit.
func (d *decoder) until(l *Limit, e *end, hasThen bool) bool {
	at, err := time.Parse(time.RFC3339Nano, e.text)
	var dErr error
	if err != nil {
		e.after, dErr = parseDuration(e.text)
	}
	switch {
	case err == nil:
		l.Until = at.UTC().Truncate(time.Microsecond)
		if y := at.UTC().Year(); y < 1970 || y > 2154 {
			d.fail(e.until, KindValue, fmt.Sprintf("%q is not a time that a limit can end at", e.text), "write one from 1970 to 2154")
			return false
		}
	case dErr != nil:
		d.fail(e.until, KindValue, fmt.Sprintf(`"until" is %q, which is not a time`, e.text), "write one such as 2026-12-01T00:00:00Z")
		return false
	case !d.relax:
		d.fail(e.until, KindValue, fmt.Sprintf(`"until %s" in a file, of which nobody knows when it was written`, e.text),
			`write a time such as 2026-12-01T00:00:00Z; durations are for "tidegate rules push"`)
		return false
	}
	d.ends = append(d.ends, *e)
	if !hasThen && !d.relax {
		d.fail(e.until, KindMissing, `"then" is missing: the limit ends, and nothing says what counts then`,
			`write it beside "limit", as in "then: 600/s burst 100"`)
		return false
	}
	return true
}

func (d *decoder) parseLimit(n *yaml.Node, text string) (tidegate.Limit, bool) {
	l, err := tidegate.ParseLimit(text)
	if err == nil {
		return l, true
	}
	problem, hint := err.Error(), ""
	if e, ok := errors.AsType[*tidegate.LimitError](err); ok {
		problem, hint = fmt.Sprintf("limit %q: %s", text, e.Problem), e.Hint
	}
	d.fail(target(n), KindLimit, problem, hint)
	d.errs[len(d.errs)-1].Err = err
	return l, false
}

// checkCost refuses a cost that no bucket can hold.
func (d *decoder) checkCost(n *yaml.Node, r *Rule, l *Limit) {
	for _, limit := range []tidegate.Limit{l.Limit, l.Then} {
		if c := limit.Capacity(); r.Cost.Times > 1 && limit != (tidegate.Limit{}) && limit.Algorithm != tidegate.None && r.Cost.Times > c {
			d.fail(target(n), KindValue, fmt.Sprintf("every take costs %d, and the limit never has more than %d", r.Cost.Times, c),
				"nothing would ever pass: lower the cost or raise the limit")
			return
		}
	}
}

// ending is what was written after "until".
type ending struct {
	node *yaml.Node
	text string
}

// limitText returns a limit in the grammar of [tidegate.ParseLimit], and its end if it has one.
func (d *decoder) limitText(n *yaml.Node) (text string, until *ending, ok bool) {
	n = target(n)
	if n.Kind == yaml.MappingNode {
		return d.longLimit(n)
	}
	text, ok = d.text(n, "the limit", `write for example "600/s burst 100", or a mapping with the same words`)
	if !ok {
		return "", nil, false
	}
	if len(text) > maxLimitText {
		d.fail(n, KindLimit, fmt.Sprintf("a limit of %d bytes", len(text)), `write one such as "600/s burst 100"`)
		return "", nil, false
	}
	words := strings.Fields(text)
	for i, w := range words {
		if i == 0 || !strings.EqualFold(w, "until") {
			continue
		}
		if i+1 == len(words) {
			d.fail(n, KindLimit, fmt.Sprintf("limit %q: until has no value", text), "write a time such as 2026-12-01T00:00:00Z")
			return "", nil, false
		}
		until = &ending{n, words[i+1]}
		rest := append(append([]string{}, words[:i]...), words[i+2:]...)
		for _, w := range rest {
			if strings.EqualFold(w, "until") {
				d.fail(n, KindLimit, fmt.Sprintf("limit %q: until is given twice", text), "give it once")
				return "", nil, false
			}
		}
		return strings.Join(rest, " "), until, true
	}
	return text, nil, true
}

// longLimit returns the short form of a mapping.
func (d *decoder) longLimit(n *yaml.Node) (text string, until *ending, ok bool) {
	before := len(d.errs)
	fields, _ := d.mapping(n, "the limit", limitKeys...)
	values := make(map[string]string, len(fields))
	for _, name := range limitKeys {
		f, given := fields[name]
		if !given {
			continue
		}
		v, good := d.text(f.value, fmt.Sprintf("%q", name), "write one value, as in the short form")
		if good && len(strings.Fields(v)) != 1 {
			d.fail(target(f.value), KindValue, fmt.Sprintf("%q is %q", name, v), "write one word, as in the short form")
		}
		if name == "until" {
			until = &ending{target(f.value), v}
			continue
		}
		values[name] = v
	}
	if len(d.errs) > before {
		return "", nil, false
	}
	rate, hasRate := values["rate"]
	permits, hasPermits := values["concurrent"]
	switch per, hasPer := values["per"]; {
	case hasRate == hasPermits:
		d.fail(n, KindMissing, `the limit needs either "rate" or "concurrent"`, "write for example {rate: 600, per: s, burst: 100} or {concurrent: 20}")
		return "", nil, false
	case hasPermits && hasPer:
		d.fail(fields["per"].key, KindValue, "permits have no period", "write for example {concurrent: 20}")
		return "", nil, false
	case hasPermits:
		text = permits + " concurrent"
	case hasPer && strings.Contains(rate, "/"):
		d.fail(fields["per"].key, KindDuplicate, `the period is given twice, in "rate" and in "per"`, "write {rate: 600/s} or {rate: 600, per: s}")
		return "", nil, false
	case hasPer:
		text = rate + "/" + per
	default:
		text = rate
	}
	for _, name := range limitKeys {
		v, given := values[name]
		switch {
		case !given || name == "rate" || name == "per" || name == "concurrent":
		case name == "algorithm":
			text += " " + v
		default:
			text += " " + name + " " + v
		}
	}
	return text, until, true
}
