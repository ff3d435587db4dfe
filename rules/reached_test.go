package rules

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// overridesOf is a file of one rule with so many overrides, each with the condition that the function writes.
func overridesOf(n int, match func(i int) string) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n  - name: r\n    key: [user, tenant, ip]\n    limit: 1/s\n    overrides:\n")
	for i := range n {
		fmt.Fprintf(&b, "      - {match: {%s}, limit: %d/s}\n", match(i), 1+i%5)
	}
	return []byte(b.String())
}

// shapes are what the conditions of many overrides look like.
var shapes = map[string]func(i int) string{
	"values":          func(i int) string { return fmt.Sprintf("user: u%d", i) },
	"starts":          func(i int) string { return fmt.Sprintf(`user: "team-%d-*"`, i) },
	"ends":            func(i int) string { return fmt.Sprintf(`user: "*-%d@example.com"`, i) },
	"middles":         func(i int) string { return fmt.Sprintf(`user: "*team-%d-*"`, i) },
	"one start":       func(i int) string { return fmt.Sprintf(`user: "organisation-*-%d"`, i) },
	"start and end":   func(i int) string { return fmt.Sprintf(`user: "a%d-*-b%d"`, i/100, i%100) },
	"between":         func(i int) string { return fmt.Sprintf(`user: "org-*-team-%d-*-member"`, i) },
	"two conditions":  func(i int) string { return fmt.Sprintf(`tenant: "t*", user: "u%d-*"`, i) },
	"values in pairs": func(i int) string { return fmt.Sprintf(`tenant: t%d, user: u%d`, i/100, i%100) },
	"lists":           func(i int) string { return fmt.Sprintf(`user: ["a%d-*", "*-b%d", c%d]`, i, i, i) },
	"mixed": func(i int) string {
		return []string{fmt.Sprintf("user: u%d", i), fmt.Sprintf(`user: "v%d-*"`, i), fmt.Sprintf(`ip: 10.%d.%d.0/24`, i/250, i%250)}[i%3]
	},
	"blocks":  func(i int) string { return fmt.Sprintf("ip: 10.%d.%d.0/24", i/250, i%250) },
	"blocks6": func(i int) string { return fmt.Sprintf(`ip: "2001:db8:%x::/48"`, i) },
}

// TestManyOverrides: the work of finding overrides that never apply grows with their number, not with its square.
func TestManyOverrides(t *testing.T) {
	const n = 10_000
	for name, match := range shapes {
		t.Run(name, func(t *testing.T) {
			d := &decoder{file: "many.yaml"}
			if _, err := d.parse(overridesOf(n, match)); err != nil {
				t.Fatal(err)
			}
			// Of 100 times 100 starts and ends, each feature is that of 100.
			if most := 100 * n; d.compared > most || name != "start and end" && name != "values in pairs" && d.compared > 2*n {
				t.Errorf("%d pairs were compared", d.compared)
			}
		})
	}
}

// TestCovering: an override that another takes all of is found by its features as it is by looking at all.
func TestCovering(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	glob := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(5) {
			b.WriteString(pick("a", "b", "/", "ab", "*", "**", "é"))
		}
		return strings.ReplaceAll(strings.ReplaceAll(b.String(), "****", "**"), "***", "**")
	}
	block := func() string {
		return pick("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::1", "::ffff:10.1.0.0/112")
	}
	patterns := func(one func() string) []string {
		var texts []string
		for range 1 + rng.IntN(2) {
			texts = append(texts, pick("", "", "", "!")+one())
		}
		return texts
	}
	found := 0
	for range 3000 {
		var overrides []Override
		var nodes []*yaml.Node
		for i := range 12 {
			o := Override{Line: i + 1}
			for attribute, one := range map[string]func() string{"user": glob, "path": glob, ipAttribute: block} {
				if rng.IntN(3) > 0 {
					continue
				}
				if c, err := newCondition(attribute, patterns(one)); err == nil {
					o.Match = append(o.Match, c)
				}
			}
			if len(o.Match) > 0 {
				overrides, nodes = append(overrides, o), append(nodes, &yaml.Node{})
			}
		}
		reach := newReached(overrides, nodes)
		var earlier []*Override
		for i := range overrides {
			o := &overrides[i]
			var want *Override
			for _, e := range earlier {
				if e.Match.covers(o.Match) {
					want = e
					break
				}
			}
			if got := reach.covering(o); got != want {
				t.Fatalf("%s: %+v, want %+v", o.Match, got, want)
			}
			if want != nil {
				found++
			} else if o.values() == nil {
				reach.add(o)
				earlier = append(earlier, o)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d overrides were covered, so that little was tested", found)
	}
}

// TestTakesUp: globs fit texts as the regular expression that says what they mean.
func TestTakesUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	some := func(of ...string) string {
		var b strings.Builder
		for range rng.IntN(7) {
			b.WriteString(of[rng.IntN(len(of))])
		}
		return b.String()
	}
	fits := 0
	for range 50_000 {
		parts, err := globParts(some("a", "b", "/", "*", "**", "é"))
		if err != nil {
			continue
		}
		text := some("a", "b", "/", "\x00", "\x01", "é")
		re := regexp.MustCompile(strings.ReplaceAll(globRegexp(parts), `[^/]*`, `[^/\x01]*`))
		want := re.MatchString(text)
		if got := takesUp(parts, text); got != want {
			t.Fatalf("%+v, %q: %v, want %v", parts, text, got, want)
		}
		if want {
			fits++
		}
	}
	if fits < 1000 {
		t.Errorf("only %d fit", fits)
	}
}

func BenchmarkManyOverrides(b *testing.B) {
	for name, match := range shapes {
		b.Run(name, func(b *testing.B) {
			text := overridesOf(10_000, match)
			for b.Loop() {
				if _, err := Parse("many.yaml", text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
