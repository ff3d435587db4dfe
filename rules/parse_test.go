package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// mustParse returns the set of a text.
func mustParse(tb testing.TB, text string) *Set {
	tb.Helper()
	s, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	return s
}

// TestBadFiles reads every file of testdata/bad. Each line that is wrong ends in a comment "# COLUMN: part of the message",
// several separated by " | "; a line of its own, "# LINE:COLUMN: …", is for what a comment cannot stand beside.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, line := range strings.Split(string(data), "\n") {
				_, comment, ok := strings.Cut(line, "# ")
				if !ok {
					continue
				}
				for part := range strings.SplitSeq(comment, " | ") {
					if !strings.HasPrefix(strings.TrimSpace(line), "#") {
						part = fmt.Sprintf("%d:%s", i+1, part)
					}
					want = append(want, part)
				}
			}
			_, err = Parse("f", data)
			got, ok := errors.AsType[Errors](err)
			if !ok {
				t.Fatalf("no Errors but %v", err)
			}
			for i, e := range got {
				if i >= len(want) {
					t.Errorf("one more: %v", e)
					continue
				}
				place, part, _ := strings.Cut(want[i], ": ")
				if at := fmt.Sprintf("%d:%d", e.Line, e.Column); at != place || !strings.Contains(e.Error(), part) {
					t.Errorf("got  %v\nwant %s: …%s…", e, place, part)
				}
				if e.Kind == "" || e.Problem == "" || e.File != "f" {
					t.Errorf("not filled in: %#v", e)
				}
			}
			for _, w := range want[min(len(got), len(want)):] {
				t.Errorf("nobody said %q", w)
			}
		})
	}
}

func TestErrorsForPrograms(t *testing.T) {
	_, err := Parse("x.yaml", []byte("version: 1\nrules:\n  - name: a\n    limit: 10/fortnight\n  - name: b\n    limit: 1/s\n    colour: red\n"))
	le, ok := errors.AsType[*tidegate.LimitError](err)
	if !ok || le.Text != "10/fortnight" {
		t.Errorf("no LimitError in %v", err)
	}
	es, _ := errors.AsType[Errors](err)
	if len(es) != 2 || es[0].Kind != KindLimit || es[0].Rule != "a" || es[1].Kind != KindUnknownKey || es[1].Rule != "b" {
		t.Errorf("got %#v", es)
	}
	want := `x.yaml:4:12: limit "10/fortnight": "fortnight" is not a unit of time (the units are s, min, h, day, week, month and year, as in "10/2week")` + "\n" +
		`x.yaml:7:5: unknown key "colour" (the keys here are ` + strings.Join(ruleKeys, ", ") + ")"
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestParseEverything(t *testing.T) {
	s := mustParse(t, `
version: 1
rules:
  - name: first
    match: {path: [/api/**, "!/api/health"], ip: 10.0.0.0/8, code: 200}
    key: [user, tenant]
    limit: {rate: 600, per: s, burst: 100, lease: 50ms}
    overrides:
      - match: {user: "vip-*", tenant: "!a"}
        limit: unlimited until 2027-01-01T00:00:00+08:00
        then: 1000/s
    cost: 5
    on_store_failure: local 0.8
    enforce: 12.5%
    missing: deny
    breaker: {failure_ratio: 50%}
  - name: second
    key: [user]
    limit: {concurrent: 20, ttl: 1m}
    shadow: true
  - name: third
    limit: 100/min until 2026-12-24T00:00:00Z sliding-window
    then: {rate: 10/min, algorithm: sliding-window}
    cost: tokens
    missing: deny
    on_store_failure: deny
    tighten: [{breaker: first, to: 20%}]
`)
	r := s.Rule("first")
	switch {
	case len(s.Rules()) != 3, s.Rules()[0] != r, r.Line != 4, s.File() != "rules.yaml", s.Rule("other") != nil:
		t.Errorf("the set: %+v", s)
	case r.Limit.Limit != tidegate.Limit{Rate: 600, Per: time.Second, Burst: 100, Lease: 50 * time.Millisecond}:
		t.Errorf("the long form: %v", r.Limit)
	case len(r.Match) != 3 || r.Match[2].Patterns[0] != "200" || r.Match[0].Attribute != "path":
		t.Errorf("the match: %v", r.Match)
	case r.Overrides[0].Line != 9 || !r.Overrides[0].Limit.Until.Equal(time.Date(2026, 12, 31, 16, 0, 0, 0, time.UTC)):
		t.Errorf("the override: %+v", r.Overrides)
	case r.Overrides[0].Limit.At(time.Date(2026, 12, 31, 15, 59, 59, 0, time.UTC)).Algorithm != tidegate.Unlimited:
		t.Error("the override has ended too early")
	case r.Overrides[0].Limit.At(time.Date(2026, 12, 31, 16, 0, 0, 0, time.UTC)).Rate != 1000:
		t.Error("the override has not ended")
	case r.Cost.Times != 5, r.OnStoreFailure.Share != 0.8, r.Enforce != 0.125, r.Missing != MissingDeny, r.Shadow:
		t.Errorf("the rest: %+v", r)
	case r.Breaker.FailureRatio != 0.5 || r.Breaker.Window != 10*time.Second || r.Breaker.MinimumCalls != 20:
		t.Errorf("the breaker: %+v", r.Breaker)
	}
	if l := s.Rule("second").Limit; l.Algorithm != tidegate.Concurrency || l.Rate != 20 || !s.Rule("second").Shadow {
		t.Errorf("permits: %v", l)
	}
	third := s.Rule("third")
	if third.Cost != (Cost{Attribute: "tokens"}) || third.Tighten[0] != (Tighten{"first", 0.2}) || third.Limit.Algorithm != tidegate.SlidingWindow {
		t.Errorf("third: %+v", third)
	}
}

func TestMarshal(t *testing.T) {
	for _, file := range goodFiles(t) {
		s, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		checkMarshal(t, s)
	}
}

// checkMarshal holds a set to its canonical text.
func checkMarshal(t *testing.T, s *Set) {
	t.Helper()
	text := s.Marshal()
	again, err := Parse("again", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if string(again.Marshal()) != string(text) {
		t.Fatalf("%s\nbecomes\n%s", text, again.Marshal())
	}
	if d := Diff(s, again); d != nil {
		t.Fatalf("differs from itself: %v", d)
	}
}

// goodFiles are the examples and testdata/good.
func goodFiles(tb testing.TB) []string {
	tb.Helper()
	var all []string
	for _, pattern := range []string{"../examples/rules/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			tb.Fatalf("%s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

func TestDiff(t *testing.T) {
	a := mustParse(t, "version: 1\nrules:\n  - {name: a, limit: 1/s}\n  - {name: b, limit: 1/s}\n  - {name: c, limit: 60/1min}\n")
	b := mustParse(t, "version: 1\nrules:\n  - {name: c, limit: 60/min}\n  - {name: d, limit: 1/s}\n  - {name: a, limit: 2/s}\n")
	got := Diff(a, b)
	want := []Change{
		{"d", "", "  - name: d\n    limit: 1/s\n"},
		{"a", "  - name: a\n    limit: 1/s\n", "  - name: a\n    limit: 2/s\n"},
		{"b", "  - name: b\n    limit: 1/s\n", ""},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(Diff(nil, a)); n != 3 {
		t.Errorf("%d changes from none", n)
	}
}

// TestAliasesThatMultiply: what aliases repeat is bounded, also where each repetition is what a rule may be; a few are fine.
func TestAliasesThatMultiply(t *testing.T) {
	override := "&o {match: {k: x}, limit: 1/s}" + strings.Repeat(", *o", 12_000)
	bomb := "version: 1\nrules: [&r {name: a, key: [k], limit: 1/s, overrides: [" + override + "]}" + strings.Repeat(", *r", 12_000) + "]\n"
	_, err := Parse("bomb.yaml", []byte(bomb))
	errs, ok := errors.AsType[Errors](err)
	if !ok || len(errs) != 1 || !strings.Contains(errs[0].Problem, "aliases") {
		t.Errorf("%d errors, %.200v", len(errs), err)
	}
	if _, err := Parse("itself.yaml", []byte("version: 1\nrules: &r [*r]\n")); err == nil {
		t.Error("a list that holds itself is taken")
	}
	if _, err := Parse("few.yaml", []byte("version: 1\nrules:\n- {name: a, limit: &l 1/s}\n- {name: b, limit: *l}\n")); err != nil {
		t.Error(err)
	}
}

// TestHostileFiles: what is pushed to a service cannot exhaust it.
func TestHostileFiles(t *testing.T) {
	bomb := "version: 1\na0: &a0 [a, b, c, d, e, f, g, h, i, j]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
	}
	for name, text := range map[string]string{
		"nested lists":    strings.Repeat("[", 1_000_000),
		"nested mappings": strings.Repeat("{a: ", 200_000),
		"aliases":         bomb + "rules: *a30\n",
		"itself":          "version: 1\nrules: &r [*r]\n",
		"own match":       "version: 1\nrules: [{name: a, limit: 1/s, match: &m {path: *m}}]\n",
		"long text":       "version: 1\nrules: [{name: a, limit: 1/s, match: {path: '" + strings.Repeat("*a", 100_000) + "'}}]\n",
		"long limit":      "version: 1\nrules: [{name: a, limit: '" + strings.Repeat("burst 1 ", 100_000) + "'}]\n",
	} {
		start := time.Now()
		_, err := Parse("f", []byte(text))
		es, ok := errors.AsType[Errors](err)
		if !ok || len(es) > 100 {
			t.Errorf("%s: %d errors", name, len(es))
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
