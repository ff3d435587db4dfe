package tidegate_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidegate-go/tidegate"
)

// answer is a charge and its decision.
type answer struct {
	shadow   bool
	decision tidegate.Decision
}

func allowed(rule string, remaining, limit int64) answer {
	return answer{decision: tidegate.Decision{Allowed: true, Rule: rule, Remaining: remaining, Limit: limit, ResetAfter: time.Second}}
}

func delayed(rule string, remaining, limit int64, delay time.Duration) answer {
	a := allowed(rule, remaining, limit)
	a.decision.Delay = delay
	return a
}

func denied(rule string, retry time.Duration) answer {
	return answer{decision: tidegate.Decision{Rule: rule, Limit: 10, RetryAfter: retry, ResetAfter: time.Minute}}
}

func unlimited(rule string) answer {
	return answer{decision: tidegate.Decision{
		Allowed: true, Rule: rule, Source: tidegate.SourceUnlimited, Limit: tidegate.NoLimit, Remaining: tidegate.NoLimit,
	}}
}

func shadow(a answer) answer {
	a.shadow = true
	return a
}

// combine gives the answers to Combine in an order.
func combine(answers []answer, order []int) tidegate.Decision {
	var charges []tidegate.Charge
	var decisions []tidegate.Decision
	for _, i := range order {
		charges = append(charges, tidegate.Charge{Rule: answers[i].decision.Rule, Shadow: answers[i].shadow})
		decisions = append(decisions, answers[i].decision)
	}
	return tidegate.Combine(charges, decisions)
}

// permutations calls f with every order of n.
func permutations(n int, f func(order []int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var permute func(k int)
	permute = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			permute(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	permute(0)
}

// The whole does not depend on the order of its charges: what one says may not stop the others from being heard.
func TestCombine(t *testing.T) {
	nothing := tidegate.Decision{Allowed: true, Limit: tidegate.NoLimit, Remaining: tidegate.NoLimit}
	noRule, shadowOnly := nothing, nothing
	noRule.Source, shadowOnly.Source = tidegate.SourceUnlimited, tidegate.SourceShadow

	withDelay := func(a answer, delay time.Duration) tidegate.Decision {
		a.decision.Delay = delay
		return a.decision
	}
	tests := []struct {
		name    string
		answers []answer
		want    tidegate.Decision
	}{
		{"no charges", nil, noRule},
		{"one", []answer{allowed("a", 5, 10)}, allowed("a", 5, 10).decision},
		{"one refused", []answer{denied("a", time.Second)}, denied("a", time.Second).decision},

		{"the refused one", []answer{allowed("a", 0, 10), denied("b", time.Millisecond), allowed("c", 0, 10)}, denied("b", time.Millisecond).decision},
		{"the longest wait of those that refuse", []answer{
			denied("a", 12*time.Second), denied("b", 3000*time.Second), allowed("c", 56, 60), denied("d", 0),
		}, denied("b", 3000*time.Second).decision},
		{"never is the longest", []answer{denied("a", time.Hour), denied("b", tidegate.Never)}, denied("b", tidegate.Never).decision},
		{"refused without a wait", []answer{allowed("a", 1, 10), denied("b", 0)}, denied("b", 0).decision},

		{"the smallest share left", []answer{allowed("a", 50, 100), allowed("b", 4, 10), allowed("c", 9, 10)}, allowed("b", 4, 10).decision},
		{"empty is the smallest", []answer{allowed("a", 1, 1000), allowed("b", 0, 1)}, allowed("b", 0, 1).decision},
		{"shares of large limits", []answer{
			allowed("a", 1<<51, 1<<52), allowed("b", 1<<51-1<<20, 1<<52), allowed("c", 3, 4),
		}, allowed("b", 1<<51-1<<20, 1<<52).decision},

		{"the longest delay of all", []answer{
			delayed("a", 1, 10, 3*time.Second), delayed("b", 0, 10, time.Second), allowed("c", 5, 10),
		}, withDelay(allowed("b", 0, 10), 3*time.Second)},
		{"no delay when refused", []answer{delayed("a", 1, 10, 3*time.Second), denied("b", time.Second)}, denied("b", time.Second).decision},

		{"unlimited alone", []answer{unlimited("a")}, unlimited("a").decision},
		{"unlimited and a limit", []answer{unlimited("a"), allowed("b", 10, 10)}, allowed("b", 10, 10).decision},
		{"unlimited and a refusal", []answer{unlimited("a"), denied("b", time.Second), allowed("c", 0, 5)}, denied("b", time.Second).decision},

		{"shadow alone", []answer{shadow(allowed("a", 0, 10))}, shadowOnly},
		{"shadow refuses", []answer{shadow(denied("a", time.Hour))}, shadowOnly},
		{"two in shadow", []answer{shadow(denied("a", time.Hour)), shadow(allowed("b", 1, 10))}, shadowOnly},
		{"shadow refuses, another allows", []answer{shadow(denied("s", time.Hour)), allowed("a", 9, 10)}, allowed("a", 9, 10).decision},
		{"shadow waits longer than the one that refuses", []answer{shadow(denied("s", time.Hour)), denied("a", time.Second)}, denied("a", time.Second).decision},
		{"shadow has less left", []answer{shadow(allowed("s", 0, 10)), allowed("a", 9, 10), allowed("b", 8, 10)}, allowed("b", 8, 10).decision},
		{"shadow delays", []answer{shadow(delayed("s", 0, 10, time.Hour)), allowed("a", 9, 10)}, allowed("a", 9, 10).decision},
		{"shadow and unlimited", []answer{shadow(denied("s", time.Hour)), unlimited("a")}, unlimited("a").decision},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			permutations(len(test.answers), func(order []int) {
				if got := combine(test.answers, order); got != test.want {
					t.Errorf("in the order %v: %+v, want %+v", order, got, test.want)
				}
			})
		})
	}
}

// Of two that are alike, the first is described.
func TestCombineTies(t *testing.T) {
	for _, answers := range [][]answer{
		{allowed("a", 5, 10), allowed("b", 50, 100)},
		{denied("a", time.Second), denied("b", time.Second)},
		{unlimited("a"), unlimited("b")},
	} {
		if got := combine(answers, []int{0, 1}).Rule; got != "a" {
			t.Errorf("%+v: rule %q", answers, got)
		}
		if got := combine(answers, []int{1, 0}).Rule; got != "b" {
			t.Errorf("%+v, the other way round: rule %q", answers, got)
		}
	}
}

func TestDecisionJSON(t *testing.T) {
	encode := func(retry, reset, delay string) string {
		return `{"allowed":false,"limit":0,"remaining":0,"retry_after_seconds":` + retry + `,"reset_after_seconds":` + reset +
			`,"delay_seconds":` + delay + `,"rule":"","source":"store"}`
	}
	times := func(retry, reset, delay time.Duration) tidegate.Decision {
		return tidegate.Decision{RetryAfter: retry, ResetAfter: reset, Delay: delay}
	}
	rule := func(name string) tidegate.Decision { return tidegate.Decision{Rule: name} }
	named := func(name string) string {
		return `{"allowed":false,"limit":0,"remaining":0,"retry_after_seconds":0,"reset_after_seconds":0,"delay_seconds":0,"rule":` + name + `,"source":"store"}`
	}
	tests := []struct {
		decision tidegate.Decision
		want     string
	}{
		{
			tidegate.Decision{Allowed: true, Limit: 20, Remaining: 19, ResetAfter: 100 * time.Millisecond, Rule: "example"},
			`{"allowed":true,"limit":20,"remaining":19,"retry_after_seconds":0,"reset_after_seconds":0.1,"delay_seconds":0,"rule":"example","source":"store"}`,
		},
		{
			tidegate.Decision{Allowed: true, Limit: tidegate.NoLimit, Remaining: tidegate.NoLimit, Source: tidegate.SourceUnlimited},
			`{"allowed":true,"limit":null,"remaining":null,"retry_after_seconds":0,"reset_after_seconds":0,"delay_seconds":0,"rule":"","source":"unlimited"}`,
		},
		{
			tidegate.Decision{Limit: 1<<53 - 1, Remaining: 1<<53 - 2, Source: tidegate.SourceDeniedCache},
			`{"allowed":false,"limit":9007199254740991,"remaining":9007199254740990,"retry_after_seconds":0,"reset_after_seconds":0,"delay_seconds":0,"rule":"","source":"denied-cache"}`,
		},

		// Seconds: no exponent, no zeros at the end, and never early: what is finer than a microsecond is rounded up.
		{times(0, 0, 0), encode("0", "0", "0")},
		{times(tidegate.Never, tidegate.Never, 0), encode("null", "null", "0")},
		{times(1, 999, time.Microsecond), encode("0.000001", "0.000001", "0.000001")},
		{times(1001, time.Microsecond*10, time.Millisecond), encode("0.000002", "0.00001", "0.001")},
		{times(time.Second, 1500*time.Millisecond, time.Second+1), encode("1", "1.5", "1.000001")},
		{times(999_999_001, 999_999_000, 2*time.Hour), encode("1", "0.999999", "7200")},
		{times(50*365*24*time.Hour+time.Microsecond, 0, 0), encode("1576800000.000001", "0", "0")},
		{times(math.MaxInt64-1, math.MaxInt64-807, 0), encode("9223372036.854776", "9223372036.854775", "0")},

		// Rules may have any name.
		{rule("per-user"), named(`"per-user"`)},
		{rule(`a"b\c/d`), named(`"a\"b\\c/d"`)},
		{rule("tab\tnewline\nnull\x00bell\x07del\x7f"), named(`"tab\tnewline\nnull\u0000bell\u0007del` + "\x7f" + `"`)},
		{rule("<script>&"), named(`"\u003cscript\u003e\u0026"`)},
		{rule("\u2028\u2029"), named(`"\u2028\u2029"`)},
		{rule("правило é"), named(`"правило é"`)},
		{rule("a\xffb\xc3"), named(`"a\ufffdb\ufffd"`)},
	}
	for _, test := range tests {
		got, err := test.decision.MarshalJSON()
		if err != nil || string(got) != test.want {
			t.Errorf("%+v:\n got %s (%v)\nwant %s", test.decision, got, err, test.want)
		}
		if viaPackage, err := json.Marshal(test.decision); err != nil || string(viaPackage) != test.want {
			t.Errorf("json.Marshal(%+v):\n got %s (%v)\nwant %s", test.decision, viaPackage, err, test.want)
		}
	}
}

// Every decision is JSON that any reader takes apart again.
func TestDecisionJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(label string) time.Duration {
			return rapid.OneOf(rapid.Just(tidegate.Never), rapid.Map(rapid.Int64Range(0, math.MaxInt64/1000),
				func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })).Draw(t, label)
		}
		count := func(label string) int64 {
			return rapid.OneOf(rapid.Just(tidegate.NoLimit), rapid.Int64Range(0, 1<<53)).Draw(t, label)
		}
		d := tidegate.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Limit: count("limit"), Remaining: count("remaining"),
			RetryAfter: duration("retry"), ResetAfter: duration("reset"), Delay: duration("delay"),
			Rule: rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "rule"),
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Allowed          bool
			Limit, Remaining *int64
			Retry            *json.Number `json:"retry_after_seconds"`
			Reset            *json.Number `json:"reset_after_seconds"`
			Delay            *json.Number `json:"delay_seconds"`
			Rule, Source     string
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.Allowed != d.Allowed || got.Source != "store" {
			t.Errorf("%s", text)
		}
		if utf8.ValidString(d.Rule) && got.Rule != d.Rule {
			t.Errorf("%s: rule %q, want %q", text, got.Rule, d.Rule)
		}
		for _, n := range []struct {
			got  *int64
			want int64
		}{{got.Limit, d.Limit}, {got.Remaining, d.Remaining}} {
			if (n.got == nil) != (n.want == tidegate.NoLimit) || n.got != nil && *n.got != n.want {
				t.Errorf("%s: want %d", text, n.want)
			}
		}
		for _, n := range []struct {
			got  *json.Number
			want time.Duration
		}{{got.Retry, d.RetryAfter}, {got.Reset, d.ResetAfter}, {got.Delay, d.Delay}} {
			if (n.got == nil) != (n.want == tidegate.Never) {
				t.Errorf("%s: want %v", text, n.want)
				continue
			}
			if n.got == nil {
				continue
			}
			if back, err := time.ParseDuration(n.got.String() + "s"); err != nil || back != n.want {
				t.Errorf("%s: %v (%v), want %v", text, back, err, n.want)
			}
		}
	})
}
