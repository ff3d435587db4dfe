package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// document reads the only document of the data. The error is Errors.
func document(file string, data []byte) (*yaml.Node, error) {
	fail := func(line, column int, problem, hint string) error {
		return Errors{{File: file, Line: max(line, 1), Column: max(column, 1), Kind: KindSyntax, Problem: problem, Hint: hint}}
	}
	if line, column, ok := invalidUTF8(data); ok {
		return nil, fail(line, column, "the file is not UTF-8", "save it as UTF-8")
	}
	l, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, fail(1, 1, "the file cannot be read: "+err.Error(), "")
	}
	var doc, second yaml.Node
	err = load(l, &doc)
	if errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || isNull(doc.Content[0])) {
		return nil, fail(1, 1, "the file is empty", `write "version: 1" and "rules:" with at least one rule`)
	}
	if err == nil {
		err = load(l, &second)
		if err == nil && len(second.Content) > 0 {
			return nil, fail(second.Content[0].Line, second.Content[0].Column, "a second document in the file", `keep all rules in one, without "---" between them`)
		}
		if err == nil || errors.Is(err, io.EOF) {
			if multiplies(doc.Content[0]) {
				return nil, fail(1, 1, "its aliases stand for more than the file could hold", "write out what they repeat, or repeat less")
			}
			return doc.Content[0], nil
		}
	}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		hint := ""
		if e.ContextMsg != "" && e.ContextMark.Line > 0 {
			hint = fmt.Sprintf("%s that begins at %d:%d", e.ContextMsg, e.ContextMark.Line, e.ContextMark.Column)
		}
		return nil, fail(e.Mark.Line, e.Mark.Column, "not YAML: "+e.Message, yamlHint(e.Message, hint))
	}
	return nil, fail(1, 1, "not YAML: "+err.Error(), "")
}

// load loads the next document, and makes an error of a parser's panic: what is pushed to a service must not end it.
func load(l *yaml.Loader, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser failed: %v", p)
		}
	}()
	return l.Load(n)
}

// yamlHint says what to do about the usual slips in YAML.
func yamlHint(message, context string) string {
	switch {
	case strings.Contains(message, "alphabetic or numeric character"), strings.Contains(message, "unknown anchor"):
		return `quote a value that begins with "*", as in "*.example.com"`
	case strings.Contains(message, "cannot start any token"):
		return "indent with spaces, not tabs, and quote a value that begins with a sign"
	case strings.Contains(message, "mapping values are not allowed"):
		return "quote a value with a colon in it, and check the indentation"
	case context == "":
		return "check the indentation and the quotes"
	}
	return context
}

func invalidUTF8(data []byte) (line, column int, bad bool) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, 1, true
	}
	line, column = 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return line, column, true
		case r == '\n':
			line, column = line+1, 0
		}
		column++
		i += n
	}
	return 0, 0, false
}

// decoder turns nodes into rules, and takes down what is wrong with them.
type decoder struct {
	file  string
	rule  string // that is being read
	errs  Errors
	relax bool // whether a limit may end after a duration, and without saying what comes then
	ends  []end
	// compared is how many pairs of overrides were held against each other, for a test that there are not too many.
	compared int
}

// fail takes down a mistake at the node.
func (d *decoder) fail(n *yaml.Node, kind Kind, problem, hint string) {
	d.errs = append(d.errs, &Error{File: d.file, Line: n.Line, Column: n.Column, Kind: kind, Rule: d.rule, Problem: problem, Hint: hint})
}

// field is a key of a mapping and its value.
type field struct{ key, value *yaml.Node }

// mapping returns the fields of a mapping by name: those that are known, the first of each. What names the thing.
func (d *decoder) mapping(n *yaml.Node, what string, known ...string) (map[string]field, bool) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		d.fail(n, KindType, fmt.Sprintf("%s is %s", what, kindOf(n)), fmt.Sprintf("write a mapping with the keys %s", strings.Join(known, ", ")))
		return nil, false
	}
	fields := make(map[string]field, len(n.Content)/2)
	for _, f := range d.pairs(n, what) {
		name := f.key.Value
		if !slices.Contains(known, name) {
			hint := "the keys here are " + strings.Join(known, ", ")
			if near := nearest(name, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			d.fail(f.key, KindUnknownKey, fmt.Sprintf("unknown key %q", name), hint)
			continue
		}
		fields[name] = f
	}
	return fields, true
}

// pairs returns the fields of a mapping whose keys are texts, the first of each.
func (d *decoder) pairs(n *yaml.Node, what string) []field {
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	fields := make([]field, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			d.fail(n.Content[i], KindType, fmt.Sprintf("a key of %s is %s", what, kindOf(key)), "write a name")
		case key.Tag == "!!merge":
			d.fail(key, KindUnknownKey, `merge keys ("<<") are not supported`, "write the keys out, or name the whole value with & and *")
		case first[key.Value] != nil:
			d.fail(key, KindDuplicate, fmt.Sprintf("the key %q is given twice", key.Value),
				fmt.Sprintf("the first is at line %d: leave one of them out", first[key.Value].Line))
		default:
			first[key.Value] = key
			fields = append(fields, field{key, n.Content[i+1]})
		}
	}
	return fields
}

// sequence returns the elements of a list.
func (d *decoder) sequence(n *yaml.Node, what, hint string) ([]*yaml.Node, bool) {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		d.fail(n, KindType, fmt.Sprintf("%s is %s", what, kindOf(n)), hint)
		return nil, false
	}
	return n.Content, true
}

// text returns a scalar as it is written, whatever it looks like: 200 is "200".
func (d *decoder) text(n *yaml.Node, what, hint string) (string, bool) {
	n = target(n)
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n) || !standardTag(n):
		d.fail(n, KindType, fmt.Sprintf("%s is %s", what, kindOf(n)), hint)
	case n.Value == "":
		d.fail(n, KindValue, what+" is empty", hint)
	case strings.IndexFunc(n.Value, unicode.IsControl) >= 0:
		d.fail(n, KindValue, fmt.Sprintf("%s, %q, has a control character", what, n.Value), "write text of one line")
	default:
		return n.Value, true
	}
	return "", false
}

// flag returns true or false.
func (d *decoder) flag(f field) bool {
	n := target(f.value)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		switch strings.ToLower(n.Value) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	d.fail(n, KindType, fmt.Sprintf("%q is %s", f.key.Value, kindOf(n)), "write true or false")
	return false
}

// maxAliased is how many nodes aliases may add to those of the file.
const maxAliased = 100_000

// multiplies reports whether aliases make more of a document than is read: each is read as often as it is used, in others too.
func multiplies(root *yaml.Node) bool {
	const unknown = -1 // of a node that is being counted: one that holds itself
	sizes := map[*yaml.Node]int{}
	plain := 0
	var size func(n *yaml.Node) (int, bool)
	size = func(n *yaml.Node) (int, bool) {
		if n.Kind == yaml.AliasNode && n.Alias != nil {
			n = n.Alias
		}
		if known, ok := sizes[n]; ok {
			return known, known != unknown
		}
		sizes[n] = unknown
		plain++
		total := 1
		for _, c := range n.Content {
			s, ok := size(c)
			if total += s; !ok || total > 1<<40 {
				return 0, false
			}
		}
		sizes[n] = total
		return total, true
	}
	total, ok := size(root)
	return !ok || total > plain+maxAliased
}

// target is the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// standardTag reports whether the scalar has a type of YAML's own; "!x" unquoted is a type of another's.
func standardTag(n *yaml.Node) bool { return strings.HasPrefix(n.Tag, "!!") }

// kindOf says what a node is.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	case !standardTag(n):
		return fmt.Sprintf(`a value of the type %q; a text that begins with "!" is quoted`, n.Tag)
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "the number " + n.Value
	case n.Tag == "!!bool":
		return "the flag " + n.Value
	}
	return fmt.Sprintf("the text %q", n.Value)
}

// nearest returns the name that word is most likely a slip of, of those that differ by at most two letters.
func nearest(word string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		if n := distance(strings.ToLower(word), name); n < least && n < len(name) {
			best, least = name, n
		}
	}
	return best
}

// distance is how many letters must be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = before
			} else {
				row[j+1] = 1 + min(before, above, row[j])
			}
			before = above
		}
	}
	return row[len(b)]
}
