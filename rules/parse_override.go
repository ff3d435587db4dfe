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
	var good []*yaml.Node // those whose conditions could be read; nil for the others
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
		} else {
			d.fail(node, KindMissing, `the override has no "match"`, "say for which values of the key it is; what counts for all is the rule's own limit")
		}
		read := node
		if len(d.errs) > before || len(o.Match) == 0 {
			read = nil
		}
		good = append(good, read)
		o.Limit = d.limit(node, fields, r, o)
		r.Overrides = append(r.Overrides, *o)
	}
	reach := newReached(r.Overrides, good)
	for i, node := range good {
		if node != nil {
			d.checkReached(node, r, &r.Overrides[i], reach)
		}
	}
	d.compared += reach.compared
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
	if e := reach.covering(o); e != nil {
		unreachable(fmt.Sprintf("the override can never apply: the one at line %d takes all that it matches", e.Line), "put it before that one, or remove it")
		return
	}
	values := o.values()
	if values == nil {
		reach.add(o)
		return
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
