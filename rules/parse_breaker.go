package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate"
)

// The defaults of a breaker.
var defaultBreaker = Breaker{
	Window:        10 * time.Second,
	MinimumCalls:  20,
	OpenTime:      5 * time.Second,
	HalfOpenCalls: 5,
	Ramp:          30 * time.Second,
}

func (d *decoder) breaker(n *yaml.Node) *Breaker {
	fields, ok := d.mapping(n, `"breaker"`, breakerKeys...)
	if !ok {
		return nil
	}
	n = target(n)
	b := defaultBreaker
	for name, to := range map[string]*float64{
		"failure_ratio": &b.FailureRatio, "slow_ratio": &b.SlowRatio, "refusal_ratio": &b.RefusalRatio,
	} {
		if f, ok := fields[name]; ok {
			if *to = d.percent(f, 0, 1); *to == 0 {
				d.failIfZero(f)
			}
		}
	}
	for name, in := range map[string]struct {
		to          *time.Duration
		least, most time.Duration
	}{
		"slow_after": {&b.SlowAfter, time.Millisecond, time.Hour},
		"window":     {&b.Window, time.Second, time.Hour},
		"open_time":  {&b.OpenTime, 100 * time.Millisecond, time.Hour},
		"ramp":       {&b.Ramp, 0, time.Hour},
	} {
		if f, ok := fields[name]; ok {
			*in.to = d.duration(f, in.least, in.most)
		}
	}
	if f, ok := fields["minimum_calls"]; ok {
		b.MinimumCalls = d.count(f, 1_000_000)
	}
	if f, ok := fields["half_open_calls"]; ok {
		b.HalfOpenCalls = d.count(f, 10_000)
	}
	_, failures := fields["failure_ratio"]
	slowRatio, slow := fields["slow_ratio"]
	slowAfter, after := fields["slow_after"]
	_, refusals := fields["refusal_ratio"]
	switch {
	case slow && !after:
		d.fail(slowRatio.key, KindMissing, `"slow_ratio" without "slow_after"`, "say from when on a call is slow, as in slow_after: 1s")
	case after && !slow:
		d.fail(slowAfter.key, KindMissing, `"slow_after" without "slow_ratio"`, "say how many slow calls trip the breaker, as in slow_ratio: 80%")
	case !failures && !slow && !refusals:
		d.fail(n, KindMissing, "nothing trips the breaker", "give at least one of failure_ratio, slow_ratio and refusal_ratio, as in failure_ratio: 50%")
	}
	return &b
}

// failIfZero refuses a ratio of 0, unless it was refused already.
func (d *decoder) failIfZero(f field) {
	n := target(f.value)
	for _, e := range d.errs {
		if e.Line == n.Line && e.Column == n.Column {
			return
		}
	}
	d.fail(n, KindValue, fmt.Sprintf("%q is 0%%, which is always reached", f.key.Value), "leave it out if it should not trip the breaker")
}

// link is a rule's reference to the breaker of another.
type link struct {
	rule, breaker string
	node          *yaml.Node
}

// tighten reads one link to a breaker, or a list of them.
func (d *decoder) tighten(n *yaml.Node, r *Rule) (ts []Tighten, links []link) {
	n = target(n)
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
		if len(nodes) == 0 {
			d.fail(n, KindValue, `"tighten" is empty`, "leave it out")
		}
	}
	for _, node := range nodes {
		fields, ok := d.mapping(node, `"tighten"`, linkKeys...)
		if !ok {
			continue
		}
		var t Tighten
		if f, ok := fields["breaker"]; ok {
			if t.Breaker, ok = d.text(f.value, `"breaker"`, "name the rule that has the breaker"); ok {
				for _, other := range ts {
					if other.Breaker == t.Breaker {
						d.fail(target(f.value), KindDuplicate, fmt.Sprintf("a second link to the breaker of %q", t.Breaker), "leave one of them out")
					}
				}
				links = append(links, link{r.Name, t.Breaker, target(f.value)})
			}
		} else {
			d.fail(target(node), KindMissing, `"breaker" is missing`, "name the rule that has the breaker, as in {breaker: database, to: 20%}")
		}
		if f, ok := fields["to"]; ok {
			t.To = d.percent(f, 0, 1)
			switch {
			case t.To == 1:
				d.fail(target(f.value), KindValue, "to 100% tightens nothing", "write what is left of the limit, from 0% to below 100%")
			case t.To > 0 && r.Limit.Algorithm == tidegate.Unlimited:
				d.fail(target(f.value), KindValue, "a part of an unlimited limit", `write "to: 0%", which sheds everything, or give the rule a limit`)
			}
		} else {
			d.fail(target(node), KindMissing, `"to" is missing`, "write what is left of the limit, as in {breaker: database, to: 20%}")
		}
		ts = append(ts, t)
	}
	return ts, links
}

// checkLinks refuses links to breakers that do not exist.
func (d *decoder) checkLinks(rules []*Rule, links []link) {
	has := map[string]bool{}
	var names []string
	for _, r := range rules {
		if r.Breaker != nil {
			names = append(names, r.Name)
		}
		has[r.Name] = has[r.Name] || r.Breaker != nil
	}
	for _, l := range links {
		d.rule = l.rule
		with, exists := has[l.breaker]
		hint := `give the rule that the trouble is behind a "breaker"`
		if len(names) > 0 {
			hint = "rules with a breaker: " + strings.Join(names, ", ")
		}
		switch {
		case !exists:
			d.fail(l.node, KindReference, fmt.Sprintf("there is no rule %q", l.breaker), hint)
		case !with:
			d.fail(l.node, KindReference, fmt.Sprintf("the rule %q has no breaker", l.breaker), hint)
		}
	}
}

// percentDecimals is how many decimals a percentage may have.
const percentDecimals = 6

// percent reads a part of the whole: "20%".
func (d *decoder) percent(f field, least, most float64) float64 {
	name := f.key.Value
	hint := fmt.Sprintf("write a percentage from %g%% to %g%%, as in %s: 20%%", least*100, most*100, name)
	text, ok := d.text(f.value, fmt.Sprintf("%q", name), hint)
	if !ok {
		return 0
	}
	number, ok := strings.CutSuffix(text, "%")
	p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	_, decimals, _ := strings.Cut(strings.TrimSpace(number), ".")
	if !ok || err != nil || p/100 < least || p/100 > most || strings.Trim(number, "0123456789. ") != "" || len(decimals) > percentDecimals {
		d.fail(target(f.value), KindValue, fmt.Sprintf("%q is %s", name, kindOf(target(f.value))), hint)
		return 0
	}
	return p / 100
}

// count reads a whole number from 1 to most.
func (d *decoder) count(f field, most int64) int64 {
	hint := fmt.Sprintf("write a whole number from 1 to %d", most)
	n := target(f.value)
	text, ok := d.text(n, fmt.Sprintf("%q", f.key.Value), hint)
	if !ok {
		return 1
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 || v > most || n.Tag != "!!int" {
		d.fail(n, KindValue, fmt.Sprintf("%q is %s", f.key.Value, kindOf(n)), hint)
		return 1
	}
	return v
}

// duration reads a duration from least to most.
func (d *decoder) duration(f field, least, most time.Duration) time.Duration {
	hint := fmt.Sprintf("write a duration from %v to %v, as in %s: 10s", least, most, f.key.Value)
	text, ok := d.text(f.value, fmt.Sprintf("%q", f.key.Value), hint)
	if !ok {
		return most
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < least || v > most || target(f.value).Tag != "!!str" {
		d.fail(target(f.value), KindValue, fmt.Sprintf("%q is %s", f.key.Value, kindOf(target(f.value))), hint)
		return most
	}
	return v
}

// parseDuration reads what may stand after "until": a duration of Go, or a number of days or weeks.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		// The grammar of limits knows the other units: a TTL is read by it.
		for _, u := range []struct {
			names  string
			length time.Duration
		}{
			{"s sec secs second seconds", time.Second}, {"min mins minute minutes", time.Minute}, {"hour hours hr hrs", time.Hour},
			{"d day days", 24 * time.Hour}, {"w wk week weeks", 7 * 24 * time.Hour},
		} {
			digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
			n, perr := strconv.ParseInt(digits, 10, 32)
			if perr == nil && n > 0 && containsWord(u.names, s[len(digits):]) && n <= int64(maxUntil/u.length) {
				return time.Duration(n) * u.length, nil
			}
		}
		return 0, err
	}
	if d <= 0 || d > maxUntil {
		return 0, fmt.Errorf("%v is not from 1ns to %v", d, maxUntil)
	}
	return d, nil
}

// maxUntil is the longest that a limit with an end can last when it is written as a duration.
const maxUntil = 10 * 365 * 24 * time.Hour

func containsWord(words, w string) bool {
	for word := range strings.FieldsSeq(words) {
		if word == w {
			return true
		}
	}
	return false
}
