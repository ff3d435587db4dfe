package rules

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (d *decoder) overrides(n *yaml.Node, r *Rule) {
	nodes, ok := d.sequence(n, `"overrides"`, `write a list of {match: …, limit: …}`)
	if !ok {
		return
	}
	if len(nodes) == 0 {
		d.fail(target(n), KindValue, `"overrides" is empty`, "leave it out")
	}
	if len(r.Key) == 0 && len(nodes) > 0 {
		d.fail(target(n), KindSharedKey, "overrides on a rule without a key: its one bucket would have several limits", "add a key, as in key: [user], or write rules of their own")
		return
	}
	var reach reached
	for _, node := range nodes {
		node = target(node)
		fields, ok := d.mapping(node, "an override", overrideKeys...)
		if !ok {
			continue
		}
		o := &Override{Line: node.Line}
		before := len(d.errs)
		if f, ok := fields["match"]; ok {
			o.Match = d.match(f.value)
			d.checkShared(f.value, r, o)
			if len(d.errs) == before {
				d.checkReached(node, r, o, &reach)
			}
		} else {
			d.fail(node, KindMissing, `the override has no "match"`, "say for which values of the key it is; what counts for all is the rule's own limit")
		}
		o.Limit = d.limit(node, fields, r, o)
		r.Overrides = append(r.Overrides, *o)
	}
}

// checkShared refuses conditions on what the key is not made of: two requests of one bucket would have two limits, and
// each would undo what the other left.
func (d *decoder) checkShared(n *yaml.Node, r *Rule, o *Override) {
	for i := range o.Match {
		attribute := o.Match[i].Attribute
		if slices.Contains(r.Key, attribute) {
			continue
		}
		at := n
		for _, f := range d.pairs(target(n), "") {
			if f.key.Value == attribute {
				at = f.key
			}
		}
		d.fail(at, KindSharedKey, fmt.Sprintf("%q is no part of the key [%s], so that two of its values could share a bucket under two limits",
			attribute, strings.Join(r.Key, ", ")), fmt.Sprintf("add %q to the key, or write a rule of its own that matches it", attribute))
	}
}

// reached is the overrides of a rule that came before, to find one that can never apply.
type reached struct {
	values map[string]int // the line of the override, by attribute and exact value: those with this one condition alone
	others []Override
}

// checkReached refuses an override that can never apply.
func (d *decoder) checkReached(n *yaml.Node, r *Rule, o *Override, reach *reached) {
	unreachable := func(problem, hint string) { d.fail(n, KindUnreachable, problem, hint) }
	for i := range o.Match {
		c := &o.Match[i]
		values := c.exact()
		if values == nil {
			continue
		}
		if !slices.ContainsFunc(values, func(v string) bool { return c.holds(v, true) }) {
			unreachable(fmt.Sprintf("the override can never apply: no value of %q meets its own conditions", c.Attribute), "remove it")
			return
		}
		for j := range r.Match {
			of := &r.Match[j]
			if of.Attribute == c.Attribute && !slices.ContainsFunc(values, func(v string) bool { return of.holds(v, true) }) {
				unreachable(fmt.Sprintf("the override can never apply: no request with such a %q is the rule's", c.Attribute),
					"remove it, or widen the rule's match")
				return
			}
		}
	}
	for i := range reach.others {
		if e := &reach.others[i]; e.Match.covers(o.Match) {
			unreachable(fmt.Sprintf("the override can never apply: the one at line %d takes all that it matches", e.Line), "put it before that one, or remove it")
			return
		}
	}
	values := []string(nil)
	if len(o.Match) == 1 && len(o.Match[0].none) == 0 {
		values = o.Match[0].exact()
	}
	if values == nil {
		reach.others = append(reach.others, *o)
		return
	}
	if reach.values == nil {
		reach.values = map[string]int{}
	}
	free := false
	var lines []int
	for _, v := range values {
		id := o.Match[0].Attribute + "\x00" + v
		if at, taken := reach.values[id]; taken {
			lines = append(lines, at)
			continue
		}
		free = true
		reach.values[id] = o.Line
	}
	if free {
		return
	}
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) == 1 {
		unreachable(fmt.Sprintf("the override can never apply: the one at line %d takes all that it matches", lines[0]), "put it before that one, or remove it")
		return
	}
	unreachable(fmt.Sprintf("the override can never apply: those at the lines %s take all that it matches", strings.Trim(fmt.Sprint(lines), "[]")),
		"put it before them, or remove it")
}
