package envoy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidegate-go/tidegate"
	bucketkey "github.com/tidegate-go/tidegate/internal/key"
)

// Config is what a set of files says. It never changes: a reload makes another one.
type Config struct {
	domains   map[string]*domain
	algorithm tidegate.Algorithm
	warnings  []string
}

// Domains returns the names of the domains, in their order.
func (c *Config) Domains() []string {
	names := make([]string, 0, len(c.domains))
	for name := range c.domains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Warnings are what may be meant otherwise than it is written, though it can be kept to.
func (c *Config) Warnings() []string { return c.warnings }

// Limits returns the number of limits.
func (c *Config) Limits() int {
	n := 0
	for _, d := range c.domains {
		d.root.each(func(*node) { n++ })
	}
	return n
}

// A domain is a tree of nodes, and what its limits are called.
type domain struct {
	name string
	root node
}

// node is a descriptor of a file: what may follow an entry, and the limit of a descriptor that ends with it.
type node struct {
	key, value string    // as they are written; the value is empty for any
	wild       *wildcard // of a value with *
	file       string
	line       int
	column     int
	path       string // in the file

	exact     map[entry]*node
	wildcards map[string][]*node // by key, in the order of the files
	bare      map[string]*node   // by key, without a value

	limit *limit // nil: nothing limits what ends here

	shared      bool // all that a wildcard matches are one bucket
	valueMetric bool
}

// entry is a key and its value. They are told apart here, where a text of both would make a_b of a and b.
type entry struct{ key, value string }

// limit is a limit of a file.
type limit struct {
	wire      *ratelimitv3.RateLimitResponse_RateLimit // what an answer shows of it; never changed
	limit     tidegate.Limit
	version   int64
	unlimited bool
	shadow    bool
	quota     bool
	name      string
	replaces  []string
	detailed  bool // metrics tell the values
	metadata  *structpb.Struct

	rule    string   // of the buckets
	label   string   // of the rule in metrics
	shared  []bool   // for each entry whether all its values are one; nil if none's are
	levels  []*node  // from the first entry to this one
	counted *counted // what is counted of it, where no value of a request is in the labels; nil otherwise
}

// each calls f with every node that has a limit, in no order.
func (n *node) each(f func(*node)) {
	if n.limit != nil {
		f(n)
	}
	for _, c := range n.exact {
		c.each(f)
	}
	for _, list := range n.wildcards {
		for _, c := range list {
			c.each(f)
		}
	}
	for _, c := range n.bare {
		c.each(f)
	}
}

// leaf reports whether no descriptor follows.
func (n *node) leaf() bool { return len(n.exact) == 0 && len(n.wildcards) == 0 && len(n.bare) == 0 }

// find returns the node of an entry: that of the value, else the first wildcard that matches, else that of the key alone.
func (n *node) find(key, value string) *node {
	if c := n.exact[entry{key, value}]; c != nil {
		return c
	}
	for _, c := range n.wildcards[key] {
		if c.wild.matches(value) {
			return c
		}
	}
	return n.bare[key]
}

// add puts a child where find finds it, and returns the one that was there before, if any: that is a fault.
func (n *node) add(c *node) (before *node) {
	switch {
	case c.value == "":
		if before = n.bare[c.key]; before == nil {
			put(&n.bare, c.key, c)
		}
	case c.wild != nil:
		for _, other := range n.wildcards[c.key] {
			if other.value == c.value {
				return other
			}
		}
		put(&n.wildcards, c.key, append(n.wildcards[c.key], c))
	default:
		if before = n.exact[entry{c.key, c.value}]; before == nil {
			put(&n.exact, entry{c.key, c.value}, c)
		}
	}
	return before
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// ruleName names the rule of a path of nodes: the domain and the keys. A wildcard whose matches share a bucket is part of
// the name, so that its bucket is none that a value alone could name.
func ruleName(domain string, levels []*node) string {
	parts := make([]string, 0, 1+len(levels))
	parts = append(parts, domain)
	for _, n := range levels {
		part := equals.Replace(n.key)
		if n.shared {
			part += "=" + n.value
		}
		parts = append(parts, part)
	}
	return bucketkey.Join(parts)
}

// equals keeps the = between key and wildcard the only one.
var equals = strings.NewReplacer("%", "%25", "=", "%3D")

// finish works out what the limits of a domain are called and what may replace what, once all its files are read.
func (d *domain) finish() (warnings []string, fs faults) {
	d.root.name(d.name, nil)
	named := map[string][]*node{}
	var all []*node
	d.root.each(func(n *node) {
		all = append(all, n)
		if n.limit.name != "" {
			named[n.limit.name] = append(named[n.limit.name], n)
		}
	})
	slices.SortFunc(all, func(a, b *node) int {
		return strings.Compare(a.file+"\x00"+fmt.Sprintf("%09d", a.line), b.file+"\x00"+fmt.Sprintf("%09d", b.line))
	})
	for _, n := range all {
		for _, r := range n.limit.replaces {
			if named[r] == nil {
				warnings = append(warnings, fmt.Sprintf("%s:%d: %s replaces %q, but no rate_limit of the domain %q has that name",
					n.file, n.line, n.path, r, d.name))
			}
		}
		if circle := circleFrom(n, named); circle != "" {
			fs = append(fs, n.fault("rate_limit.replaces", "limits replace each other in a circle, so that none would be left: "+circle,
				"take one of them out of replaces"))
		}
	}
	return warnings, fs
}

// circleFrom follows what a limit replaces until it is back at its name, and tells the way; empty if it never is.
func circleFrom(n *node, named map[string][]*node) string {
	start := n.limit.name
	if start == "" {
		return ""
	}
	seen := map[string]bool{}
	var follow func(names []string, way string) string
	follow = func(names []string, way string) string {
		for _, name := range names {
			if name == start {
				return way + " → " + strconv.Quote(name)
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			for _, next := range named[name] {
				if found := follow(next.limit.replaces, way+" → "+strconv.Quote(name)); found != "" {
					return found
				}
			}
		}
		return ""
	}
	return follow(n.limit.replaces, strconv.Quote(start))
}

// name gives the limits of the tree their rules and levels.
func (n *node) name(domain string, above []*node) {
	visit := func(c *node) {
		levels := append(slices.Clone(above), c)
		if l := c.limit; l != nil {
			l.levels = levels
			l.rule = ruleName(domain, levels)
			l.label = l.rule
			for i, level := range levels {
				if !level.shared {
					continue
				}
				if l.shared == nil {
					l.shared = make([]bool, len(levels))
				}
				l.shared[i] = true
			}
		}
		c.name(domain, levels)
	}
	for _, c := range n.exact {
		visit(c)
	}
	for _, list := range n.wildcards {
		for _, c := range list {
			visit(c)
		}
	}
	for _, c := range n.bare {
		visit(c)
	}
}

// fault is a fault of the node, or of a part of it.
func (n *node) fault(part, problem, hint string) *FileError {
	path := n.path
	if part != "" {
		path += "." + part
	}
	return &FileError{File: n.file, Line: n.line, Column: n.column, Path: path, Problem: problem, Hint: hint}
}
