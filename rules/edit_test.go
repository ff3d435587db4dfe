package rules

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWithLimit(t *testing.T) {
	const file = `# what we promise
version: 1
rules:
  - name: a # the first
    limit: 10/s burst 20 # as agreed
    overrides:
      - match: {user: vip}
        limit: 5/s
    key: [user]
  - {name: b, limit: "7/min", key: [b]}
  - then: 3/s
    name: c
    limit: unlimited until 2030-01-01T00:00:00Z
  - name: d
    limit:
      rate: 4
      per: s
`
	for _, test := range []struct{ rule, limit, from, to string }{
		{"a", "30/s", "limit: 10/s burst 20 # as agreed", "limit: 30/s # as agreed"},
		{"b", "8/min", `limit: "7/min"`, "limit: 8/min"},
		{"c", "9/s", "then: 3/s\n    name: c\n    limit: unlimited until 2030-01-01T00:00:00Z", "name: c\n    limit: 9/s"},
		{"c", "9/s until 2031-01-01T00:00:00Z", "limit: unlimited until 2030-01-01T00:00:00Z", "limit: 9/s until 2031-01-01T00:00:00Z"},
	} {
		got, err := WithLimit("f", []byte(file), test.rule, test.limit)
		if want := strings.Replace(file, test.from, test.to, 1); err != nil || string(got) != want {
			t.Errorf("%s to %s: %v\n%s\nwant\n%s", test.rule, test.limit, err, got, want)
		}
	}

	// The long form is written anew, and means the same but for that limit.
	got, err := WithLimit("f", []byte(file), "d", "6/s")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := Parse("f", []byte(file))
	after, err := Parse("f", got)
	if err != nil {
		t.Fatal(err)
	}
	if changes := Diff(before, after); len(changes) != 1 || changes[0].Rule != "d" || after.Rule("d").Limit.Rate != 6 {
		t.Errorf("the changes are %+v", changes)
	}
}

// A limit is a limit: whatever is in it, it ends where the limit does.
func TestWithLimitCannotAddRules(t *testing.T) {
	const file = "version: 1\nrules:\n  - name: a\n    limit: 10/s\n    key: [user]\n"
	for _, limit := range []string{
		"10/s\n    shadow: true", "10/s # x", "{rate: 1}", "10/s\n  - name: evil\n    limit: none", `"`, "", "*x", "a: b", "10/s, shadow: true", "- 1",
	} {
		got, err := WithLimit("f", []byte(file), "a", limit)
		if err != nil {
			t.Errorf("%q: %v", limit, err)
			continue
		}
		if set, err := Parse("f", got); err == nil {
			t.Errorf("%q is taken for a limit:\n%s\n%v", limit, got, set.Rules())
		}
	}
}

func TestWithLimitForATime(t *testing.T) {
	const file = "version: 1\nrules:\n  - name: a\n    limit: 10/s\n    key: [user]\n"
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	set, err := Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := WithLimit("f", []byte(file), "a", "unlimited until 300s")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = Absolute("f", text, now, set); err != nil {
		t.Fatal(err)
	}
	if set, err = Parse("f", text); err != nil {
		t.Fatal(err)
	}
	l := set.Rule("a").Limit
	if at := now.Add(300 * time.Second); !l.Until.Equal(at) || l.At(at).Rate != 10 {
		t.Errorf("the limit is %v, then %v", l, l.Then)
	}

	// What was for a time is taken back: the end goes, and what was to follow it.
	if text, err = WithLimit("f", text, "a", "11/s"); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(file, "10/s", "11/s", 1); string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestWithLimitMisuse(t *testing.T) {
	const file = "version: 1\nrules:\n  - name: a\n    limit: 10/s\n"
	_, err := WithLimit("f", []byte(file), "b", "1/s")
	if _, ok := errors.AsType[*UnknownRuleError](err); !ok {
		t.Errorf("a rule that is not there: %v", err)
	}
	_, err = WithLimit("f", []byte("version: 2"), "a", "1/s")
	if _, ok := errors.AsType[Errors](err); !ok {
		t.Errorf("a file with mistakes: %v", err)
	}
}

func FuzzWithLimit(f *testing.F) {
	f.Add("version: 1\nrules:\n  - name: a\n    limit: 10/s\n    key: [user]\n", "5/s")
	f.Add("version: 1\nrules: [{name: a, limit: '1/s', key: [k]}]", "5/s until 2030-01-01T00:00:00Z")
	f.Add("version: 1\nrules:\n  - then: 1/s\n    limit: none until 2030-01-01T00:00:00Z\n    name: a\n", `"x`)
	f.Fuzz(func(t *testing.T, file, limit string) {
		before, err := Parse("f", []byte(file))
		if err != nil || before.Rule("a") == nil {
			return
		}
		got, err := WithLimit("f", []byte(file), "a", limit)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		after, err := Parse("f", got)
		if err != nil {
			return
		}
		for _, c := range Diff(before, after) {
			if c.Rule != "a" {
				t.Errorf("another rule has changed: %+v\n%s\n→\n%s", c, file, got)
			}
		}
	})
}
