package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	generator "github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

const schemaFile = "../docs/rules.schema.json"

var update = flag.Bool("update", false, "write docs/rules.schema.json anew")

// newSchema generates the schema from the forms.
func newSchema() *generator.Schema {
	text := func(pattern, example string) *generator.Schema {
		return &generator.Schema{Type: "string", Pattern: pattern, Examples: []any{example}}
	}
	least := uint64(1)
	longest := uint64(100)
	one := json.Number("1")
	scalar := func() *generator.Schema {
		return &generator.Schema{AnyOf: []*generator.Schema{{Type: "string", MinLength: &least}, {Type: "number"}, {Type: "boolean"}}}
	}
	oneOrMore := func(s func() *generator.Schema) *generator.Schema {
		return &generator.Schema{AnyOf: []*generator.Schema{s(), {Type: "array", Items: s(), MinItems: &least, UniqueItems: true}}}
	}
	ref := func(name string) *generator.Schema { return &generator.Schema{Ref: "#/$defs/" + name} }
	values := map[reflect.Type]func() *generator.Schema{
		reflect.TypeFor[scalarForm](): scalar,
		reflect.TypeFor[matchForm](): func() *generator.Schema {
			return &generator.Schema{Type: "object", MinProperties: &least, AdditionalProperties: oneOrMore(scalar)}
		},
		reflect.TypeFor[keyForm](): func() *generator.Schema {
			return &generator.Schema{Type: "array", Items: scalar(), MinItems: &least, UniqueItems: true}
		},
		reflect.TypeFor[limitForm](): func() *generator.Schema { return ref("limit") },
		reflect.TypeFor[costForm](): func() *generator.Schema {
			return &generator.Schema{AnyOf: []*generator.Schema{{Type: "integer", Minimum: one}, {Type: "string", MinLength: &least}}}
		},
		reflect.TypeFor[tightenForm](): func() *generator.Schema {
			return oneOrMore(func() *generator.Schema { return ref("linkForm") })
		},
		reflect.TypeFor[failureForm](): func() *generator.Schema {
			return text(`^\s*(local(\s+[0-9.eE+-]+)?|allow|deny)\s*$`, "local")
		},
		reflect.TypeFor[missingForm]():  func() *generator.Schema { return &generator.Schema{Enum: []any{"skip", "deny"}} },
		reflect.TypeFor[percentForm]():  func() *generator.Schema { return text(`^[0-9.]+\s*%$`, "20%") },
		reflect.TypeFor[durationForm](): func() *generator.Schema { return text(`^\+?(0|([0-9.]+(ns|us|µs|μs|ms|s|m|h))+)$`, "10s") },
	}
	r := &generator.Reflector{
		Anonymous: true,
		Mapper: func(t reflect.Type) *generator.Schema {
			if s := values[t]; s != nil {
				return s()
			}
			return nil
		},
	}
	s := r.Reflect(&fileForm{})
	for name, form := range map[string]any{"longLimitForm": &longLimitForm{}, "linkForm": &linkForm{}} {
		s.Definitions[name] = r.Reflect(form).Definitions[name]
	}
	s.Definitions["limit"] = &generator.Schema{AnyOf: []*generator.Schema{
		text(`^\s*([0-9]+/[0-9]*[A-Za-zµ]+|[0-9]+\s+[Cc][Oo][Nn][Cc][Uu][Rr][Rr][Ee][Nn][Tt]|[Nn][Oo][Nn][Ee]|[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd])(\s+\S+)*\s*$`, "600/s burst 100"),
		ref("longLimitForm"),
	}}
	if name, ok := s.Definitions["ruleForm"].Properties.Get("name"); ok {
		name.AnyOf[0].MaxLength = &longest
	}
	s.Title = "Tidegate rules"
	s.Description = "A file of rules, as tidegate validate and tidegate serve --rules read it."
	return s
}

// TestSchemaIsCurrent: the published schema is the one that the types give. go test ./rules -run Schema -update writes it.
func TestSchemaIsCurrent(t *testing.T) {
	want, err := json.MarshalIndent(newSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not current (%v): run go test ./rules -run Schema -update", schemaFile, err)
	}
}

// published is the schema of the file.
func published(t *testing.T) *validator.Schema {
	t.Helper()
	s, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a YAML text as a validator takes it, nil for one that is not YAML.
func instance(data []byte) any {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	var convert func(n *yaml.Node) any
	convert = func(n *yaml.Node) any {
		n = target(n)
		switch {
		case n.Kind == yaml.MappingNode:
			m := map[string]any{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				m[n.Content[i].Value] = convert(n.Content[i+1])
			}
			return m
		case n.Kind == yaml.SequenceNode:
			list := []any{}
			for _, c := range n.Content {
				list = append(list, convert(c))
			}
			return list
		case n.Tag == "!!int" || n.Tag == "!!float":
			return json.Number(n.Value)
		case n.Tag == "!!bool":
			return n.Value == "true"
		case n.Tag == "!!null":
			return nil
		}
		return n.Value
	}
	return convert(doc.Content[0])
}

// TestSchemaAndParser: what the parser takes, the schema takes; what has another shape, neither does.
func TestSchemaAndParser(t *testing.T) {
	schema := published(t)
	for _, file := range goodFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance(data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := schema.Validate(instance(mustParse(t, string(data)).Marshal())); err != nil {
			t.Errorf("%s, as it is written: %v", file, err)
		}
	}
	bad, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, file := range bad {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse("f", data)
		es, _ := errors.AsType[Errors](err)
		shape := slices.ContainsFunc(es, func(e *Error) bool { return e.Kind == KindUnknownKey || e.Kind == KindType })
		if in := instance(data); shape && in != nil {
			refused++
			if schema.Validate(in) == nil {
				t.Errorf("%s: the schema takes it, the parser says\n%v", file, err)
			}
		}
	}
	if refused < 5 {
		t.Errorf("only %d bad files have a wrong shape", refused)
	}
}

// TestSchemaOneByOne: each of these is one mistake in a rule that is good otherwise.
func TestSchemaOneByOne(t *testing.T) {
	schema := published(t)
	const rule = "version: 1\nrules:\n  - name: a\n    key: [user]\n    limit: 10/s\n"
	if err := schema.Validate(instance([]byte(rule))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{
		strings.Replace(rule, "version: 1", "version: 2", 1),
		strings.Replace(rule, "version: 1\n", "", 1),
		strings.Replace(rule, "name: a", "nme: a", 1),
		strings.Replace(rule, "name: a", "name: ''", 1),
		strings.Replace(rule, "name: a", "name: "+strings.Repeat("a", 101), 1),
		strings.Replace(rule, "[user]", "user", 1),
		strings.Replace(rule, "[user]", "[]", 1),
		strings.Replace(rule, "[user]", "[user, user]", 1),
		strings.Replace(rule, "10/s", "ten a second", 1),
		strings.Replace(rule, "10/s", "10", 1),
		strings.Replace(rule, "10/s", "{rte: 10/s}", 1),
		strings.Replace(rule, "10/s", "[10/s]", 1),
		strings.Replace(rule, "    limit: 10/s\n", "", 1),
		rule + "    colour: red\n",
		rule + "    shadow: 'yes'\n",
		rule + "    cost: 0\n",
		rule + "    cost: 1.5\n",
		rule + "    cost: [a]\n",
		rule + "    missing: ignore\n",
		rule + "    enforce: 10\n",
		rule + "    enforce: ten%\n",
		rule + "    on_store_failure: panic\n",
		rule + "    match: {}\n",
		rule + "    match: {path: []}\n",
		rule + "    match: {path: {a: b}}\n",
		rule + "    match: {path: null}\n",
		rule + "    overrides: []\n",
		rule + "    overrides: [{limit: 1/s}]\n",
		rule + "    overrides: [{match: {user: a}}]\n",
		rule + "    overrides: [{match: {user: a}, limit: 1/s, cost: 3}]\n",
		rule + "    breaker: {failure_ratio: 50}\n",
		rule + "    breaker: {failure_ratio: 50%, window: ten}\n",
		rule + "    breaker: {failure_ratio: 50%, minimum_calls: 0}\n",
		rule + "    breaker: {failure_ratio: 50%, half_open_calls: 20000}\n",
		rule + "    breaker: {failure_ratio: 50%, widow: 10s}\n",
		rule + "    tighten: []\n",
		rule + "    tighten: {breaker: a}\n",
		rule + "    tighten: {breaker: a, to: 0%, from: 1}\n",
	} {
		if _, err := Parse("f", []byte(c)); err == nil {
			t.Errorf("the parser takes\n%s", c)
		}
		if schema.Validate(instance([]byte(c))) == nil {
			t.Errorf("the schema takes\n%s", c)
		}
	}
}
