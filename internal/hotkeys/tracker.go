package hotkeys

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// By says what makes a key hot.
type By uint8

// The orders.
const (
	// ByTraffic: the cost that was asked for, allowed or not.
	ByTraffic By = iota
	// ByRefusals: the takes that were refused, whatever their cost.
	ByRefusals
)

const orders = 2

// MaxCost is the most that one observation adds to a key's traffic, so that one absurd cost does not bury all other keys for
// many windows. A larger cost counts as that.
const MaxCost = 1 << 20

// A Tracker watches the hottest keys. It is safe for concurrent use; create it with [New]. It starts nothing, so that there is
// nothing to stop.
type Tracker struct {
	cfg   Config
	start time.Time
	seeds [2]maphash.Seed

	rules   atomic.Pointer[map[string]*rule] // replaced, never written
	others  *rule                            // the rules that found no room
	looked  atomic.Int64                     // the step in which room was last looked for
	writing sync.Mutex                       // whoever replaces rules
}

// rule has the keys of one rule, for each order; nil until there is something to count.
type rule struct {
	by [orders]atomic.Pointer[summary]
}

// New returns a tracker that has seen nothing. A nil config is the default.
func New(cfg *Config) (*Tracker, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Tracker{
		cfg:    c,
		start:  time.Now(),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		others: &rule{},
	}
	t.rules.Store(&map[string]*rule{})
	t.looked.Store(math.MinInt64)
	return t, nil
}

// Window returns how fast counts fade: what was observed that long ago counts 1/e.
func (t *Tracker) Window() time.Duration { return t.cfg.Window }

// stepsPerWindow is how finely time is told: what falls into one step fades alike, at most by a sixty-fourth off.
const stepsPerWindow = 64

// step returns the number of the present step.
func (t *Tracker) step() int64 {
	return int64(time.Since(t.start) / (t.cfg.Window / stepsPerWindow))
}

// Observe notes a take of the key that cost so much, and whether it was allowed. A cost of 0 or less, which peeks or refunds,
// is nothing; one above [MaxCost] counts as that. The rule "" is none, and counts nowhere.
//
// It allocates nothing once as many keys are watched as there is room for, keeps neither string, and waits for others only
// while four of them are at keys of the same group.
func (t *Tracker) Observe(rule, key string, cost int64, allowed bool) {
	if cost <= 0 || rule == "" {
		return
	}
	step := t.step()
	i := id{maphash.String(t.seeds[0], key), maphash.String(t.seeds[1], key)}
	r := t.ruleFor(rule, step)
	shown := ""
	if r == t.others {
		shown = rule
		i = i.under(id{maphash.String(t.seeds[1], rule), maphash.String(t.seeds[0], rule)})
	}
	r.summary(ByTraffic, t.cfg.Keys).observe(i, shown, key, float64(min(cost, MaxCost)), step)
	if !allowed {
		r.summary(ByRefusals, t.cfg.Keys).observe(i, shown, key, 1, step)
	}
}

// summary returns what the rule keeps for the order, and makes it if there is none yet.
func (r *rule) summary(by By, keys int) *summary {
	if s := r.by[by].Load(); s != nil {
		return s
	}
	r.by[by].CompareAndSwap(nil, newSummary(keys))
	return r.by[by].Load()
}

// faded reports whether what was observed under the rule no longer counts.
func (r *rule) faded(step int64) bool {
	for by := range r.by {
		if s := r.by[by].Load(); s != nil && s.weigh(step) >= least {
			return false
		}
	}
	return true
}

// ruleFor returns the rule of a name, the others if there is no room for it.
func (t *Tracker) ruleFor(name string, step int64) *rule {
	rules := *t.rules.Load()
	if r := rules[name]; r != nil {
		return r
	}
	if len(rules) >= t.cfg.Rules && step < t.looked.Load()+stepsPerWindow/4 {
		return t.others
	}
	return t.addRule(name, step)
}

// addRule finds room for a rule, if need be in place of those that have faded: which is looked for four times a window.
func (t *Tracker) addRule(name string, step int64) *rule {
	t.writing.Lock()
	defer t.writing.Unlock()
	rules := *t.rules.Load()
	if r := rules[name]; r != nil {
		return r
	}
	full := len(rules) >= t.cfg.Rules
	if full && step < t.looked.Load()+stepsPerWindow/4 {
		return t.others
	}
	next := make(map[string]*rule, len(rules)+1)
	for n, r := range rules {
		if !full || !r.faded(step) {
			next[n] = r
		}
	}
	if full {
		t.looked.Store(step)
	}
	r := t.others
	if len(next) < t.cfg.Rules {
		r = &rule{}
		next[string([]byte(name))] = r // a copy, since the name may be a part of something large
	}
	t.rules.Store(&next)
	return r
}
