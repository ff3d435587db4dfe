package replay

import (
	"errors"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/sim"
)

// tally counts what one set of rules makes of requests.
type tally struct {
	sim     *sim.Sim
	rules   []*ruleTally
	byName  map[string]*ruleTally
	left    []string // rules of permits, which are not replayed
	total   series
	before  peak
	after   peak
	passing passing // to the downstream
	over    bool    // whether the log has ended
	offered int64
	refused int64
	delayed int64                     // admitted ones that wait
	longest time.Duration             // that one waits
	sources map[tidegate.Source]int64 // of decisions
	outages stretches
}

type ruleTally struct {
	rule             *rules.Rule
	offered, refused int64
	keys             distinct
	refusedKeys      distinct
	refusals         refusals
	before, after    peak
	passing          passing
}

func newTally(set *rules.Set, cfg *sim.Config) (*tally, error) {
	t := &tally{byName: map[string]*ruleTally{}, sources: map[tidegate.Source]int64{}, outages: newStretches(cfg.Outages)}
	set = set.Filter(func(r *rules.Rule) bool {
		if sim.IsPermits(r) {
			t.left = append(t.left, r.Name)
			return false
		}
		return true
	})
	t.passing.pass = t.pass
	var err error
	if t.sim, err = sim.New(set, cfg); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "sim: "))
	}
	for _, r := range set.Rules() {
		rt := &ruleTally{rule: r}
		rt.passing.pass = rt.after.add
		t.rules = append(t.rules, rt)
		t.byName[r.Name] = rt
	}
	return t, nil
}

// add has a request decided and counts it, and returns also the key of the rule that decided.
func (t *tally) add(at time.Time, attributes tidegate.Attributes) (d tidegate.Decision, key string, err error) {
	d, matched, err := t.sim.Explain(at, attributes, 1)
	if err != nil {
		return d, "", err
	}
	t.offered++
	t.before.add(at)
	t.total.offer(at)
	t.outages.offer(at)
	if d.Allowed {
		t.passing.add(at, d.Delay)
		if d.Delay > 0 {
			t.delayed++
			t.longest = max(t.longest, d.Delay)
		}
	} else {
		t.refused++
	}
	t.sources[d.Source]++
	for i := range matched {
		m := &matched[i]
		t.byName[m.Rule.Name].add(at, m.Charge.Key, &m.Decision)
		if m.Rule.Name == d.Rule {
			key = m.Charge.Key
		}
	}
	return d, key, nil
}

// pass counts a request that reaches the downstream.
func (t *tally) pass(at time.Time) {
	t.after.add(at)
	t.total.admit(at)
	if !t.over { // the stretches end with the log
		t.outages.admit(at)
	}
}

// end is told when the last request came, and counts those that wait still.
func (t *tally) end(last time.Time) {
	t.passing.until(last)
	t.over = true
	t.passing.rest()
	for _, r := range t.rules {
		r.passing.rest()
	}
}

func (r *ruleTally) add(at time.Time, key string, d *tidegate.Decision) {
	r.offered++
	r.keys.add(key)
	r.before.add(at)
	if d.Allowed {
		r.refusals.admit(key)
		r.passing.add(at, d.Delay)
		return
	}
	r.refused++
	r.refusedKeys.add(key)
	r.refusals.refuse(key)
}
