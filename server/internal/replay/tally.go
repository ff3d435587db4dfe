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
	offered int64
	refused int64
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
	var err error
	if t.sim, err = sim.New(set, cfg); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "sim: "))
	}
	for _, r := range set.Rules() {
		rt := &ruleTally{rule: r}
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
	if d.Allowed {
		t.after.add(at)
	} else {
		t.refused++
	}
	t.total.add(at, d.Allowed)
	t.sources[d.Source]++
	t.outages.add(at, d.Allowed)
	for i := range matched {
		m := &matched[i]
		t.byName[m.Rule.Name].add(at, m.Charge.Key, m.Decision.Allowed)
		if m.Rule.Name == d.Rule {
			key = m.Charge.Key
		}
	}
	return d, key, nil
}

func (r *ruleTally) add(at time.Time, key string, allowed bool) {
	r.offered++
	r.keys.add(key)
	r.before.add(at)
	if allowed {
		r.refusals.admit(key)
		r.after.add(at)
		return
	}
	r.refused++
	r.refusedKeys.add(key)
	r.refusals.refuse(key)
}
