package envoy

import (
	"fmt"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidegate-go/tidegate"
)

// A File is the text of one file.
type File struct {
	Name    string
	Text    []byte
	Version int64 // when it was changed, in µs since the Unix epoch
}

// Options say how files are read. The zero value is the default.
type Options struct {
	// Merge lets several files speak of one domain, as MERGE_DOMAIN_CONFIG does. Default: that is a fault.
	Merge bool
	// Algorithm is how all limits count: fixed-window, token-bucket or sliding-window. Default: fixed-window, in windows that
	// begin at multiples of the unit since the Unix epoch, as they have always been counted.
	Algorithm string
}

// Parse reads files. The error joins a [*FileError] for each thing that is wrong with them, and then there is no config.
func Parse(files []File, o Options) (*Config, error) {
	algorithm, err := algorithmNamed(o.Algorithm)
	if err != nil {
		return nil, err
	}
	c := &Config{domains: map[string]*domain{}, algorithm: algorithm}
	first := map[string]string{} // the file of each domain
	var fs faults
	for _, f := range files {
		p := parser{reader: reader{file: f.Name}, version: f.Version, algorithm: algorithm}
		p.into(c, f.Text, func(name string, at *yaml.Node) bool {
			if other, have := first[name]; have && !o.Merge {
				p.add(at, "domain", fmt.Sprintf("the domain %q is in %s too", name, other),
					"write both in one file, give them different names, or allow it with --envoy-merge-domains")
				return false
			}
			first[name] = f.Name
			return true
		})
		fs = append(fs, p.fs...)
	}
	if len(fs) > 0 {
		return nil, fs.err()
	}
	for _, name := range c.Domains() {
		warnings, more := c.domains[name].finish()
		c.warnings = append(c.warnings, warnings...)
		fs = append(fs, more...)
	}
	if len(fs) > 0 {
		return nil, fs.err()
	}
	return c, nil
}

// parser reads one file.
type parser struct {
	reader
	version   int64
	algorithm tidegate.Algorithm
}

// into adds what the text says to the config, unless accept refuses its domain.
func (p *parser) into(c *Config, text []byte, accept func(domain string, at *yaml.Node) bool) {
	doc := p.document(text)
	if doc == nil {
		return
	}
	fields, ok := p.mapping(doc, "", "domain", "descriptors")
	if !ok {
		return
	}
	name := p.text(fields, "domain", "")
	if name == "" {
		p.add(doc, "", "there is no domain", "write domain: and the domain that the proxy asks for")
		return
	}
	if !accept(name, fields["domain"].value) {
		return
	}
	d := c.domains[name]
	if d == nil {
		d = &domain{name: name}
		c.domains[name] = d
	}
	p.descriptors(&d.root, fields, "", 1)
}

// descriptors adds those of a mapping to their parent.
func (p *parser) descriptors(parent *node, fields map[string]field, path string, depth int) {
	f, there := fields["descriptors"]
	if !there {
		return
	}
	path = join(path, "descriptors")
	if depth > maxDepth {
		p.add(f.key, path, fmt.Sprintf("descriptors lie in each other more than %d deep", maxDepth), "no proxy asks for so many entries")
		return
	}
	for i, n := range p.list(f, path) {
		p.descriptor(parent, n, fmt.Sprintf("%s[%d]", path, i), depth)
	}
}

func (p *parser) descriptor(parent *node, at *yaml.Node, path string, depth int) {
	fields, ok := p.mapping(at, path, "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric",
		"value_to_metric", "share_threshold", "metadata", "descriptors")
	if !ok {
		return
	}
	n := &node{
		key: p.text(fields, "key", path), value: p.text(fields, "value", path),
		file: p.file, line: at.Line, column: at.Column, path: path,
		shared:      p.flag(fields, "share_threshold", path),
		valueMetric: p.flag(fields, "value_to_metric", path),
	}
	if n.key == "" {
		p.add(at, path, "the descriptor has no key", "write key: and the key of an entry, such as remote_address")
	}
	if strings.Contains(n.value, "*") {
		w := newWildcard(n.value)
		n.wild = &w
	}
	if n.shared && n.wild == nil {
		p.add(fields["share_threshold"].key, join(path, "share_threshold"), "there is nothing to share: the value has no *",
			"write a value such as files/*, or remove share_threshold")
	}
	n.limit = p.limit(fields, path)
	if before := parent.add(n); before != nil {
		what := fmt.Sprintf("key %q", n.key)
		if n.value != "" {
			what += fmt.Sprintf(" with value %q", n.value)
		}
		p.add(at, path, fmt.Sprintf("there is a descriptor of %s here already, in %s line %d", what, before.file, before.line),
			"put what both say into one")
	}
	p.descriptors(n, fields, path, depth+1)
}

// limit reads rate_limit and what beside it is about the limit; nil where there is none.
func (p *parser) limit(beside map[string]field, path string) *limit {
	l := &limit{
		version:  p.version,
		shadow:   p.flag(beside, "shadow_mode", path),
		quota:    p.flag(beside, "quota_mode", path),
		detailed: p.flag(beside, "detailed_metric", path),
		metadata: p.metadata(beside, path),
	}
	f, there := beside["rate_limit"]
	if !there {
		return nil
	}
	path = join(path, "rate_limit")
	if v, _ := p.resolved(f.value, path); v.Tag == "!!null" {
		return nil
	}
	fields, ok := p.mapping(f.value, path, "unit", "requests_per_unit", "unlimited", "name", "replaces")
	if !ok {
		return nil
	}
	l.unlimited = p.flag(fields, "unlimited", path)
	l.name = p.text(fields, "name", path)
	l.replaces = p.replaces(fields, path, l.name)
	requests := p.number(fields, "requests_per_unit", path)
	text := p.text(fields, "unit", path)
	unit, valid := unitNamed(text)
	switch {
	case l.unlimited && valid:
		p.add(fields["unit"].key, join(path, "unit"), "what is unlimited has no unit", "remove unit, or unlimited")
	case l.unlimited:
	case text == "":
		p.add(f.key, path, "there is no unit", "write unit: and one of "+unitNames)
	case !valid:
		p.add(fields["unit"].value, join(path, "unit"), fmt.Sprintf("%q is no unit", text), "write "+unitNames)
	default:
		var err error
		if l.limit, err = limitOf(requests, unit, 1, p.algorithm); err != nil {
			p.add(f.key, path, err.Error(), "")
		}
	}
	l.wire = &ratelimitv3.RateLimitResponse_RateLimit{RequestsPerUnit: requests, Unit: unit, Name: l.name}
	return l
}

func (p *parser) replaces(fields map[string]field, path, own string) (names []string) {
	f, there := fields["replaces"]
	if !there {
		return nil
	}
	path = join(path, "replaces")
	for i, n := range p.list(f, path) {
		at := fmt.Sprintf("%s[%d]", path, i)
		item, ok := p.mapping(n, at, "name")
		if !ok {
			continue
		}
		switch name := p.text(item, "name", at); name {
		case "":
			p.add(n, at, "the name is empty", "write name: and the name of another rate_limit")
		case own:
			p.add(n, at, fmt.Sprintf("%q replaces itself", name), "name another rate_limit")
		default:
			names = append(names, name)
		}
	}
	return names
}

// metadata is what an answer hands on when the limit is kept to: a mapping of anything that JSON can say.
func (p *parser) metadata(fields map[string]field, path string) *structpb.Struct {
	f, there := fields["metadata"]
	if !there {
		return nil
	}
	path = join(path, "metadata")
	n, ok := p.resolved(f.value, path)
	switch {
	case !ok || n.Tag == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		p.add(n, path, "this is "+kindOf(n)+", and not a mapping", "write for example metadata: {tier: gold}")
		return nil
	}
	v := p.json(n, path, 1)
	m, _ := v.(map[string]any)
	s, err := structpb.NewStruct(m)
	if err != nil {
		p.add(n, path, "this cannot be handed on: "+err.Error(), "write texts, numbers, booleans, lists and mappings")
		return nil
	}
	return s
}

// json is a node as JSON would have it.
func (p *parser) json(n *yaml.Node, path string, depth int) any {
	n, ok := p.resolved(n, path)
	if !ok || depth > maxDepth {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if _, twice := m[k.Value]; twice {
				p.add(k, path, fmt.Sprintf("%q is here twice", k.Value), "remove one of them")
			}
			m[k.Value] = p.json(n.Content[i+1], path, depth+1)
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, p.json(item, path, depth+1))
		}
		return list
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			p.add(n, path, err.Error(), "")
		}
		if _, simple := v.(fmt.Stringer); simple { // a date, which JSON does not know
			return n.Value
		}
		if i, small := v.(uint64); small {
			return float64(i)
		}
		return v
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return nil
}
