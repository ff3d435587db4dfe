package envoy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds how deep descriptors lie in each other, far above what a proxy sends.
	maxDepth = 100
	// maxNodes bounds what a file may say, aliases followed: a few lines of aliases of aliases would be gigabytes.
	maxNodes = 500_000
)

// reader reads YAML by hand, so that each fault has its place, and so that what one would not notice is one: a key that is
// there twice, a number where a text was meant to be, a second document.
type reader struct {
	file    string
	nodes   int
	merging int // mappings within << within <<
	fs      faults
}

// document returns the one document of the text; nil with a fault if there is none.
func (r *reader) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		r.fs = append(r.fs, &FileError{File: r.file, Problem: "the file is empty", Hint: "write domain: and descriptors:, or remove it"})
		return nil
	}
	if err == nil {
		switch err := decoder.Decode(&more); {
		case err == nil:
			r.add(&more, "", "a second document begins here, which would be left unread", "put each domain into a file of its own")
			return nil
		case !errors.Is(err, io.EOF):
			r.syntax(err)
			return nil
		}
	}
	if err != nil {
		r.syntax(err)
		return nil
	}
	return doc.Content[0]
}

var atLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntax adds what the parser complains of.
func (r *reader) syntax(err error) {
	f := &FileError{File: r.file, Problem: "this is no YAML: " + err.Error()}
	if m := atLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " ")); m != nil {
		f.Problem = "this is no YAML: " + m[2]
		if f.Line, err = strconv.Atoi(m[1]); err == nil {
			f.Column = 1
		}
	}
	if strings.Contains(f.Problem, "cannot start any token") {
		f.Hint = "indent with spaces, and put values with special signs in quotes"
	}
	r.fs = append(r.fs, f)
}

func (r *reader) add(n *yaml.Node, path, problem, hint string) {
	r.fs = append(r.fs, &FileError{r.file, n.Line, n.Column, path, problem, hint})
}

// resolved follows an alias. It counts what was read, and gives up with a fault where that is too much.
func (r *reader) resolved(n *yaml.Node, path string) (*yaml.Node, bool) {
	if r.nodes++; r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.add(n, path, fmt.Sprintf("the file says more than %d things, aliases followed", maxNodes), "split it")
		}
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias, true
	}
	return n, true
}

// A field is what a mapping has under a key.
type field struct {
	key, value *yaml.Node
}

// mapping returns the fields of a mapping by name. Keys that are not known, not texts or there twice are faults.
func (r *reader) mapping(n *yaml.Node, path string, known ...string) (map[string]field, bool) {
	n, ok := r.resolved(n, path)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		r.add(n, path, "this is "+kindOf(n)+", and not a mapping of "+enumerate(known), "")
		return nil, false
	}
	fields := make(map[string]field, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if !r.known(k, path, known) {
			continue
		}
		if before, twice := fields[k.Value]; twice {
			r.add(k, path, fmt.Sprintf("%q is here twice, first in line %d", k.Value, before.key.Line), "remove one of them")
			continue
		}
		fields[k.Value] = field{k, v}
	}
	for _, m := range merged {
		r.merge(fields, m, path, known)
	}
	return fields, true
}

// merge adds the fields of <<, which go behind those that the mapping has itself.
func (r *reader) merge(fields map[string]field, n *yaml.Node, path string, known []string) {
	n, ok := r.resolved(n, path)
	if !ok {
		return
	}
	if r.merging++; r.merging > maxDepth { // also of one that is merged into itself
		r.add(n, path, fmt.Sprintf("mappings are merged into each other more than %d deep", maxDepth), "write them out")
		return
	}
	defer func() { r.merging-- }()
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			r.merge(fields, one, path, known)
		}
		return
	}
	more, ok := r.mapping(n, path, known...)
	if !ok {
		return
	}
	for name, f := range more {
		if _, have := fields[name]; !have {
			fields[name] = f
		}
	}
}

func (r *reader) known(k *yaml.Node, path string, known []string) bool {
	switch {
	case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
		r.add(k, path, fmt.Sprintf("the key %q is %s, and not a text", k.Value, kindOf(k)), "write one of "+enumerate(known))
		return false
	case slices.Contains(known, k.Value):
		return true
	}
	hint := "write one of " + enumerate(known)
	if near := nearest(k.Value, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.add(k, path, fmt.Sprintf("there is no key %q here", k.Value), hint)
	return false
}

// list returns the items of a list; nothing is an empty one.
func (r *reader) list(f field, path string) []*yaml.Node {
	n, ok := r.resolved(f.value, path)
	switch {
	case !ok || n.Tag == "!!null":
		return nil
	case n.Kind != yaml.SequenceNode:
		r.add(n, path, "this is "+kindOf(n)+", and not a list", "begin each item with - ")
		return nil
	}
	return n.Content
}

// text returns the text of a scalar as it is written, whatever it looks like: value: 10 is "10". Nothing is "".
func (r *reader) text(fields map[string]field, name, path string) string {
	f, there := fields[name]
	if !there {
		return ""
	}
	n, ok := r.resolved(f.value, path)
	switch {
	case !ok || n.Tag == "!!null":
		return ""
	case n.Kind != yaml.ScalarNode:
		r.add(n, join(path, name), "this is "+kindOf(n)+", and not a text", "")
		return ""
	}
	return n.Value
}

// flag returns a boolean; nothing is false.
func (r *reader) flag(fields map[string]field, name, path string) bool {
	f, there := fields[name]
	if !there {
		return false
	}
	n, ok := r.resolved(f.value, path)
	if !ok || n.Tag == "!!null" {
		return false
	}
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
		switch strings.ToLower(n.Value) { // as YAML 1.1 has them, by which such files were read so far
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	r.add(n, join(path, name), "this is "+shown(n)+", and neither true nor false", "write true or false")
	return false
}

// number returns an integer of 32 bits without a sign; nothing is 0.
func (r *reader) number(fields map[string]field, name, path string) uint32 {
	f, there := fields[name]
	if !there {
		return 0
	}
	n, ok := r.resolved(f.value, path)
	if !ok || n.Tag == "!!null" {
		return 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!int" {
		if v, err := strconv.ParseUint(n.Value, 0, 32); err == nil {
			return uint32(v)
		}
	}
	r.add(n, join(path, name), "this is "+shown(n)+", and not a whole number from 0 to 4294967295", "write for example 100")
	return 0
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!int", n.Tag == "!!float":
		return "a number"
	case n.Tag == "!!bool":
		return "a boolean"
	}
	return "a text"
}

// shown is a value as a message shows it.
func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindOf(n)
	}
	const most = 60
	if len(n.Value) > most {
		return fmt.Sprintf("%.*q…", most, n.Value)
	}
	return strconv.Quote(n.Value)
}

// join makes the path of a field.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest is the word that is one slip away, if there is one.
func nearest(word string, known []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, k := range known {
		if a, b := plain(word), plain(k); a == b || strings.TrimSuffix(a, "s") == strings.TrimSuffix(b, "s") {
			return k
		}
	}
	return ""
}

// enumerate is a list of words for people.
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
