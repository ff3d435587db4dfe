package rules

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate"
)

const (
	maxExact   = 1<<53 - 1
	maxNameLen = 100
)

// Parse reads rules, strictly: an unknown key is an error. File is the name that errors show. The error is [Errors]:
// everything that is wrong, in the order of the file.
func Parse(file string, data []byte) (*Set, error) {
	d := &decoder{file: file}
	rules, err := d.parse(data)
	if err != nil {
		return nil, err
	}
	return newSet(file, rules), nil
}

func newSet(file string, rules []*Rule) *Set {
	s := &Set{file: file, rules: rules, byName: make(map[string]*Rule, len(rules))}
	for _, r := range rules {
		s.byName[r.Name] = r
	}
	return s
}

// Load reads the rules of a file. The error is [Errors], or that of reading the file.
func Load(path string) (*Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// parse reads the rules and everything that is wrong with them.
func (d *decoder) parse(data []byte) ([]*Rule, error) {
	root, err := document(d.file, data)
	if err != nil {
		return nil, err
	}
	rules := d.root(root)
	if len(d.errs) == 0 {
		return rules, nil
	}
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nil, d.errs
}

func (d *decoder) root(n *yaml.Node) []*Rule {
	fields, ok := d.mapping(n, "the file", fileKeys...)
	if !ok {
		return nil
	}
	if f, ok := fields["version"]; !ok {
		d.fail(n, KindMissing, `"version" is missing`, `write "version: 1" at the top`)
	} else if v := target(f.value); v.Kind != yaml.ScalarNode || v.Tag != "!!int" || v.Value != "1" {
		d.fail(v, KindValue, fmt.Sprintf(`"version" is %s`, kindOf(v)), `this program reads version 1`)
	}
	f, ok := fields["rules"]
	if !ok {
		d.fail(n, KindMissing, `"rules" is missing`, "list at least one rule under it")
		return nil
	}
	nodes, ok := d.sequence(f.value, `"rules"`, `write a list, each rule after a "- "`)
	if !ok {
		return nil
	}
	if len(nodes) == 0 {
		d.fail(target(f.value), KindMissing, "there are no rules, so that everything would pass",
			`list at least one; a rule with "limit: unlimited" says that on purpose`)
	}
	rules := make([]*Rule, 0, len(nodes))
	names := map[string]*yaml.Node{}
	var links []link
	for _, node := range nodes {
		d.rule = ""
		r, name, linked := d.readRule(node)
		links = append(links, linked...)
		if r.Name != "" && names[r.Name] != nil {
			d.fail(name, KindDuplicate, fmt.Sprintf("a second rule of the name %q", r.Name),
				fmt.Sprintf("the first is at line %d: their buckets would be the same, give each its own name", names[r.Name].Line))
		} else if r.Name != "" {
			names[r.Name] = name
		}
		rules = append(rules, r)
	}
	d.checkLinks(rules, links)
	return rules
}

// readRule reads a rule, as far as it can be read, and returns the node of its name and its links to breakers.
func (d *decoder) readRule(n *yaml.Node) (r *Rule, name *yaml.Node, links []link) {
	n = target(n)
	r = &Rule{Line: n.Line, Cost: Cost{Times: 1}, Enforce: 1}
	d.rule = nameOf(n)
	fields, ok := d.mapping(n, "a rule", ruleKeys...)
	if !ok {
		return r, n, nil
	}
	name = n
	if f, ok := fields["name"]; ok {
		name = target(f.value)
		r.Name = d.name(f.value)
	} else {
		d.fail(n, KindMissing, "the rule has no name", `write for example "name: per-user"; decisions, metrics and buckets are known by it`)
	}
	if f, ok := fields["match"]; ok {
		r.Match = d.match(f.value)
	}
	if f, ok := fields["key"]; ok {
		r.Key = d.key(f.value)
	}
	d.cost(r, fields)
	r.Limit = d.limit(n, fields, r, nil)
	if f, ok := fields["overrides"]; ok {
		d.overrides(f.value, r)
	}
	if f, ok := fields["on_store_failure"]; ok {
		r.OnStoreFailure = d.failurePolicy(f.value)
	}
	d.shadow(r, fields)
	d.missing(r, fields)
	if f, ok := fields["breaker"]; ok {
		r.Breaker = d.breaker(f.value)
	}
	if f, ok := fields["tighten"]; ok {
		r.Tighten, links = d.tighten(f.value, r)
	}
	return r, name, links
}

// nameOf returns the name of the rule, if it has one, for the mistakes in it.
func nameOf(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if v := target(n.Content[i+1]); n.Content[i].Value == "name" && v.Kind == yaml.ScalarNode {
				return v.Value
			}
		}
	}
	return ""
}

func (d *decoder) name(n *yaml.Node) string {
	const hint = `write a name such as per-user`
	name, ok := d.text(n, "the name", hint)
	switch {
	case !ok:
		return ""
	case len(name) > maxNameLen:
		d.fail(target(n), KindValue, fmt.Sprintf("the name is %d bytes long", len(name)), "write at most 100")
		return ""
	case strings.TrimSpace(name) != name:
		d.fail(target(n), KindValue, fmt.Sprintf("the name %q begins or ends with a space", name), hint)
		return ""
	}
	return name
}

// match reads conditions: a mapping from attributes to patterns.
func (d *decoder) match(n *yaml.Node) Match {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		d.fail(n, KindType, `"match" is `+kindOf(n), "write a mapping from attributes to values, as in {path: /api/**}")
		return nil
	}
	if len(n.Content) == 0 {
		d.fail(n, KindValue, `"match" is empty`, "leave it out to match everything")
	}
	var m Match
	for _, f := range d.pairs(n, `"match"`) {
		attribute, ok := d.text(f.key, "an attribute", "write its name, as in path")
		if !ok {
			continue
		}
		if texts, ok := d.patterns(attribute, f.value); ok {
			c, err := newCondition(attribute, texts)
			if err == nil { // which patterns has checked
				m = append(m, c)
			}
		}
	}
	return m
}

// patterns reads one pattern or a list of them.
func (d *decoder) patterns(attribute string, n *yaml.Node) ([]string, bool) {
	n = target(n)
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
		if len(nodes) == 0 {
			d.fail(n, KindValue, fmt.Sprintf("the list of values for %q is empty, so that nothing would match", attribute), "leave the attribute out to match any")
			return nil, false
		}
	}
	texts := make([]string, 0, len(nodes))
	seen := make(map[string]bool, len(nodes))
	good := true
	for _, node := range nodes {
		text, ok := d.text(node, fmt.Sprintf("a value for %q", attribute), `write a value, a glob, or a list of them; quote one that begins with "*" or "!"`)
		if !ok {
			good = false
			continue
		}
		if _, _, err := newPattern(attribute, text); err != nil {
			good = false
			hint := ""
			if e, ok := err.(*patternError); ok { //nolint:errorlint // newPattern returns nothing else
				hint = e.hint
			}
			d.fail(target(node), KindValue, fmt.Sprintf("a value for %q: %v", attribute, err), hint)
			continue
		}
		if seen[text] {
			good = false
			d.fail(target(node), KindDuplicate, fmt.Sprintf("the value %q is given twice", text), "leave one of them out")
		}
		seen[text] = true
		texts = append(texts, text)
	}
	return texts, good
}

func (d *decoder) key(n *yaml.Node) []string {
	const hint = "write a list of attributes, as in [user]"
	nodes, ok := d.sequence(n, `"key"`, hint)
	if !ok {
		return nil
	}
	if len(nodes) == 0 {
		d.fail(target(n), KindValue, `"key" is empty`, "leave it out for one bucket that all requests share")
	}
	var key []string
	for _, node := range nodes {
		part, ok := d.text(node, "a part of the key", hint)
		switch {
		case !ok:
		case slices.Contains(key, part):
			d.fail(target(node), KindDuplicate, fmt.Sprintf("the part %q of the key is given twice", part), "leave one of them out")
		default:
			key = append(key, part)
		}
	}
	return key
}

func (d *decoder) cost(r *Rule, fields map[string]field) {
	f, ok := fields["cost"]
	if !ok {
		return
	}
	const hint = "write a whole number of at least 1, or the name of an attribute that holds the cost"
	text, ok := d.text(f.value, `"cost"`, hint)
	n := target(f.value)
	switch {
	case !ok:
	case n.Tag == "!!str":
		r.Cost = Cost{Attribute: text}
	default:
		times, err := strconv.ParseInt(text, 10, 64)
		if err != nil || times < 1 || times > maxExact {
			d.fail(n, KindValue, fmt.Sprintf(`"cost" is %s`, kindOf(n)), hint)
			return
		}
		r.Cost.Times = times
	}
}

func (d *decoder) failurePolicy(n *yaml.Node) tidegate.FailurePolicy {
	const hint = `write local, local with a share such as "local 0.8", allow or deny`
	text, ok := d.text(n, `"on_store_failure"`, hint)
	if !ok {
		return tidegate.FailurePolicy{}
	}
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && words[0] == "local":
		return tidegate.FailurePolicy{}
	case len(words) == 1 && words[0] == "allow":
		return tidegate.FailurePolicy{Action: tidegate.FailAllow}
	case len(words) == 1 && words[0] == "deny":
		return tidegate.FailurePolicy{Action: tidegate.FailDeny}
	case len(words) == 2 && words[0] == "local":
		if share, err := strconv.ParseFloat(words[1], 64); err == nil && share > 0 && share <= 1 {
			return tidegate.FailurePolicy{Share: share}
		}
		d.fail(target(n), KindValue, fmt.Sprintf("the share %q", words[1]), "it is the part of the limit that this process keeps to, above 0 and at most 1, as in local 0.8")
	default:
		d.fail(target(n), KindValue, fmt.Sprintf(`"on_store_failure" is %q`, text), hint)
	}
	return tidegate.FailurePolicy{}
}

func (d *decoder) shadow(r *Rule, fields map[string]field) {
	shadow, shadowed := fields["shadow"]
	if shadowed {
		r.Shadow = d.flag(shadow)
	}
	f, ok := fields["enforce"]
	if !ok {
		return
	}
	switch {
	case shadowed:
		d.fail(f.key, KindValue, `both "shadow" and "enforce"`, `leave one of them out; "enforce: 10%" keeps the rule in shadow for the other keys`)
	case len(r.Key) == 0:
		d.fail(f.key, KindValue, `"enforce" on a rule without a key, which has one bucket`, `add a key, or use "shadow"`)
	}
	r.Enforce = d.percent(f, 0, 1)
}

func (d *decoder) missing(r *Rule, fields map[string]field) {
	f, ok := fields["missing"]
	if !ok {
		return
	}
	text, ok := d.text(f.value, `"missing"`, "write skip or deny")
	switch {
	case !ok:
	case text != "skip" && text != "deny":
		d.fail(target(f.value), KindValue, fmt.Sprintf(`"missing" is %q`, text), "write skip, for a request that is then not the rule's, or deny")
	case len(r.Key) == 0 && r.Cost.Attribute == "":
		d.fail(f.key, KindValue, `"missing" on a rule that needs no attribute`, "leave it out, or add a key")
	case text == "deny":
		r.Missing = MissingDeny
	}
}
