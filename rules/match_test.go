package rules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestConditions(t *testing.T) {
	const absent = "\x00"
	for _, c := range []struct {
		attribute, patterns string // separated by spaces
		fits, not           []string
	}{
		{"path", "/api/x", []string{"/api/x"}, []string{"/api/x/", "/api", absent, "", "/API/x"}},
		{"path", "/api/**", []string{"/api/", "/api/x", "/api/x/y"}, []string{"/api", "/apis/x", absent}},
		{"path", "/items/*", []string{"/items/1", "/items/"}, []string{"/items", "/items/1/2", "/items/1/"}},
		{"path", "/a/*/b/**/c", []string{"/a/x/b/c/c", "/a//b//c", "/a/x/b/y/z/c"}, []string{"/a/x/y/b/z/c", "/a/x/b/c", "/a/x/b/c/d"}},
		{"user", "foo*", []string{"foo", "foobar"}, []string{"fo", "xfoo", "foo/x"}},
		{"user", "bar*b", []string{"barb", "bar12b"}, []string{"bar", "barba", "ba", "bar/b"}},
		{"user", "a*b", []string{"ab", "aXb"}, []string{"a", "b", "abX"}},
		{"user", "aba*aba", []string{"abaaba", "abaXaba"}, []string{"aba", "ababa"}},
		{"user", "a*b*c", []string{"abc", "aXbXc", "abbcc"}, []string{"acb", "ab", "a/bc"}},
		{"host", "*.example.com", []string{"a.example.com", ".example.com", "a.b.example.com"}, []string{"example.com", "a/.example.com"}},
		{"user", `a\*`, []string{"a*"}, []string{"ab", "a", `a\*`}},
		{"user", `\!a`, []string{"!a"}, []string{"a", "b"}},
		{"user", `a\\*`, []string{`a\`, `a\b`}, []string{"a*"}},
		{"user", "**", []string{"", "a/b", "x"}, []string{absent}},
		{"user", "*", []string{"", "x"}, []string{absent, "a/b"}},
		{"user", "!a", []string{"b", "", absent}, []string{"a"}},
		{"user", "!a !b*", []string{"c", absent}, []string{"a", "b", "bc"}},
		{"user", "a* !ab", []string{"a", "abc"}, []string{"ab", "b", absent}},
		{"method", "GET POST", []string{"GET", "POST"}, []string{"get", "PUT"}},
		{"a", "a.c+(x)", []string{"a.c+(x)"}, []string{"abc+(x)"}},
		{"a", "*.+*", []string{".+", "x.+y"}, []string{"x+"}},
		{"ip", "10.0.0.0/8", []string{"10.1.2.3", "::ffff:10.1.2.3", "::ffff:a01:203", "10.2.0.0/16"}, []string{"11.0.0.0", "0.0.0.0/0", "10", "", absent, "2001:db8::1", "10.0.0.0/7"}},
		{"ip", "2001:db8::/32", []string{"2001:db8::1", "2001:0db8:0:1::/64", "2001:db8::1%eth0"}, []string{"2001:db9::1", "10.0.0.1"}},
		{"ip", "::ffff:10.0.0.0/104", []string{"10.1.2.3"}, []string{"11.1.2.3"}},
		{"ip", "10.0.0.1 !10.0.0.2", []string{"10.0.0.1", "::ffff:10.0.0.1"}, []string{"10.0.0.2", "10.0.0.3"}},
		{"ip", "!10.0.0.0/8", []string{"11.0.0.1", "garbage", absent}, []string{"10.0.0.1", "::ffff:10.0.0.1"}},
	} {
		cond, err := newCondition(c.attribute, strings.Fields(c.patterns))
		if err != nil {
			t.Errorf("%s: %v", c.patterns, err)
			continue
		}
		check := func(value string, want bool) {
			if got := cond.holds(value, value != absent); got != want {
				t.Errorf("%s %s: %q %v, want %v", c.attribute, c.patterns, value, got, want)
			}
		}
		for _, v := range c.fits {
			check(v, true)
		}
		for _, v := range c.not {
			check(v, false)
		}
	}
}

// TestGlobIsLinear: what a client sends cannot make a glob slow. Eight times as much takes about eight times as long, where one
// that tried again from each place would take 64 times as long, or for ever.
func TestGlobIsLinear(t *testing.T) {
	cond, err := newCondition("path", []string{"**a*a*a*a*a*b"})
	if err != nil {
		t.Fatal(err)
	}
	quickest := func(length int) time.Duration {
		value := strings.Repeat("a", length)
		best := time.Hour
		for range 5 {
			start := time.Now()
			if cond.holds(value, true) {
				t.Error("it fits")
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	const length = 1 << 14
	if one, eight := quickest(length), quickest(8*length); eight > 30*one {
		t.Errorf("%d bytes took %v, and eight times as many %v", length, one, eight)
	}
}

// TestIndexFindsWhatMatches holds the index to the rules one by one, for random rules and requests.
func TestIndexFindsWhatMatches(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	patterns := map[string][]string{
		"path":   {"/", "/a", "/a/*", "/a/**", "/a/b", "**", "*/b", "!/a", "!/a/**", "/a/*/c", `/\*`},
		"method": {"GET", "POST", "G*", "!GET"},
		"ip":     {"10.0.0.0/8", "10.0.0.1", "10.1.0.0/16", "2001:db8::/32", "!10.0.0.1", "0.0.0.0/0", "::/0"},
	}
	values := map[string][]string{
		"path": {"/", "/a", "/a/", "/a/b", "/a/b/c", "/x", "", "/*"}, "method": {"GET", "POST", "PUT"},
		"ip": {"10.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "9.9.9.9", "junk", "2001:db8::/64", "10.0.0.0/9"},
	}
	for range 100 {
		var b strings.Builder
		b.WriteString("version: 1\nrules:\n")
		for i := range 1 + r.IntN(30) {
			fmt.Fprintf(&b, "  - name: r%d\n    limit: 1000/s\n", i)
			first := true
			for attribute, ps := range patterns {
				if r.IntN(2) == 0 {
					continue
				}
				if first {
					b.WriteString("    match:\n")
					first = false
				}
				seen := map[string]bool{}
				for range 1 + r.IntN(3) {
					seen[ps[r.IntN(len(ps))]] = true
				}
				fmt.Fprintf(&b, "      %s: [", attribute)
				sep := ""
				for p := range seen {
					fmt.Fprintf(&b, "%s'%s'", sep, p)
					sep = ", "
				}
				b.WriteString("]\n")
			}
		}
		e := newEngine(t, nil, b.String())
		for range 50 {
			a := attrs{}
			for attribute, vs := range values {
				if r.IntN(5) > 0 {
					a[attribute] = vs[r.IntN(len(vs))]
				}
			}
			var want, got []string
			for _, rule := range e.Set().Rules() {
				if rule.Match.holds(a) {
					want = append(want, rule.Name)
				}
			}
			ms, err := e.Match(a, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range ms {
				got = append(got, m.Rule.Name)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Fatalf("seed %d, %v: got %v, want %v\n%s", seed, a, got, want, b.String())
			}
		}
	}
}

// TestCoversIsSure: an override called unreachable is never the first to match.
func TestCoversIsSure(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from string, most int) string {
		b := make([]byte, r.IntN(most))
		for i := range b {
			b[i] = from[r.IntN(len(from))]
		}
		return string(b)
	}
	covered := 0
	for range 30_000 {
		conds := [2]Condition{}
		ok := true
		for i := range conds {
			var ps []string
			for range 1 + r.IntN(2) {
				p := pick("ab/**", 6)
				if r.IntN(4) == 0 {
					p = "!" + p
				}
				ps = append(ps, p)
			}
			var err error
			if conds[i], err = newCondition("x", ps); err != nil {
				ok = false
			}
		}
		if !ok || !conds[0].covers(&conds[1]) {
			continue
		}
		covered++
		for range 40 {
			if v := pick("ab/", 7); conds[1].holds(v, true) && !conds[0].holds(v, true) {
				t.Fatalf("seed %d: %q is said to cover %q, but not %q", seed, conds[0].Patterns, conds[1].Patterns, v)
			}
		}
	}
	if covered < 100 {
		t.Errorf("only %d pairs of which one covers the other", covered)
	}
}

// many returns a file of n rules, each for a path of its own and a few conditions more.
func many(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: route-%d\n    match: {path: /v1/resource-%d/**, method: [GET, POST]}\n    key: [user]\n    limit: %d/min burst 20\n", i, i, 100+i%50)
		b.WriteString("    overrides:\n      - match: {user: vip}\n        limit: 1000/min burst 200\n")
	}
	return b.String()
}

// TestNoAllocation: a request costs no allocation but that of a key of several parts.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: global, limit: 1000000/s}
  - {name: user, match: {path: /api/**, ip: 10.0.0.0/8}, key: [user], limit: 1000000/s, overrides: [{match: {user: "v*"}, limit: 2000000/s}]}
  - {name: part, match: {method: [GET, POST], path: "/*/x/**"}, key: [user], limit: 1000000/s, enforce: 50%}
  - {name: bytes, match: {path: "!/b"}, key: [user], cost: length, limit: 1000000/s}
  - {name: off, limit: 1/s, shadow: true}
  - {name: ends, limit: unlimited until 2100-01-01T00:00:00Z, then: 1/s}
`+"  - {name: two, match: {two: x}, key: [user, tenant], limit: 1000000/s}\n")
	ctx := context.Background()
	var a tidegate.Attributes = attrs{"path": "/api/x/y", "ip": "10.1.2.3", "user": "v1", "method": "GET", "length": "17"}
	run := func() {
		if _, err := e.Decide(ctx, a, 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(500, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
	a = attrs{"path": "/api/x/y", "ip": "10.1.2.3", "user": "v1", "tenant": "t", "method": "GET", "length": "17", "two": "x"}
	if n := testing.AllocsPerRun(500, run); n > 2 {
		t.Errorf("%v allocations with a key of two parts", n)
	}
	key := []string{"v1"}
	if n := testing.AllocsPerRun(500, func() { _, _ = e.TakeKey(ctx, "user", key, 1) }); n != 0 {
		t.Errorf("%v allocations by key", n)
	}
}

// BenchmarkDecide: what a request costs grows with the rules that can match, not with all.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		e := newEngine(b, nil, many(n))
		for _, c := range []struct {
			name string
			a    attrs
		}{
			{"match", attrs{"path": fmt.Sprintf("/v1/resource-%d/x", n/2), "method": "GET", "user": "u"}},
			{"none", attrs{"path": "/v2/other", "method": "GET", "user": "u"}},
		} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Decide(context.Background(), c.a, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	three := newEngine(b, nil, "version: 1\nrules:\n  - {name: g, limit: 1000000/s}\n  - {name: t, key: [tenant], limit: 1000000/s}\n  - {name: u, key: [user], limit: 1000000/s}\n")
	b.Run("levels=3", func(b *testing.B) {
		b.ReportAllocs()
		a := attrs{"tenant": "t", "user": "u"}
		for b.Loop() {
			if _, err := three.Decide(context.Background(), a, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	text := []byte(many(10_000))
	for b.Loop() {
		s, err := Parse("many.yaml", text)
		if err != nil {
			b.Fatal(err)
		}
		compile(s, 0, nil, time.Now)
	}
}
