package server

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// maxOthers is how many rules are counted that the server's engine does not have; what is beyond counts in the total alone.
const maxOthers = 10_000

// traffic counts takes by rule, for those who draw what passes now: in memory, without a label for anybody.
type traffic struct {
	allowed, refused atomic.Int64 // of whole takes

	rules atomic.Pointer[map[string]*ruleTraffic] // of the set that counts; immutable

	mu     sync.RWMutex
	others map[string]*ruleTraffic // of other faces
}

// ruleTraffic is what became of takes for one rule.
type ruleTraffic struct{ allowed, refused, shadowRefused atomic.Int64 }

func newTraffic() *traffic {
	t := &traffic{others: map[string]*ruleTraffic{}}
	t.rules.Store(&map[string]*ruleTraffic{})
	return t
}

// use counts the rules of a set from now on. Those that were there before go on, and those that are gone are forgotten.
func (t *traffic) use(set *rules.Set) {
	old := *t.rules.Load()
	next := make(map[string]*ruleTraffic, len(set.Rules()))
	for _, r := range set.Rules() {
		c := old[r.Name]
		if c == nil {
			c = new(ruleTraffic)
		}
		next[r.Name] = c
	}
	t.rules.Store(&next)
}

// Count implements [rules.Counter]. A take that has begun by a rule that is gone by now counts nowhere.
func (t *traffic) Count(rule string, outcome rules.Outcome, _ tidegate.Source) {
	c := (*t.rules.Load())[rule]
	if c == nil {
		return
	}
	switch outcome {
	case rules.Allowed:
		c.allowed.Add(1)
	case rules.Refused:
		c.refused.Add(1)
	case rules.ShadowRefused:
		c.shadowRefused.Add(1)
	}
}

// whole counts a take.
func (t *traffic) whole(allowed bool) {
	if allowed {
		t.allowed.Add(1)
	} else {
		t.refused.Add(1)
	}
}

// other counts a take that another face decided by a rule of its own.
func (t *traffic) other(rule string, allowed bool) {
	if rule == "" {
		return
	}
	t.mu.RLock()
	c := t.others[rule]
	t.mu.RUnlock()
	if c == nil {
		if c = t.begin(rule); c == nil {
			return
		}
	}
	if allowed {
		c.allowed.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// begin returns the counters of a rule that is seen for the first time; nil where there is no room.
func (t *traffic) begin(rule string) *ruleTraffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.others[rule]; c != nil || len(t.others) >= maxOthers {
		return c
	}
	c := new(ruleTraffic)
	t.others[rule] = c
	return c
}

type ruleCounts struct {
	Allowed       int64 `json:"allowed"`
	Refused       int64 `json:"refused"`
	ShadowRefused int64 `json:"shadow_refused"`
}

// counts returns what was counted, of rules that were asked for at all.
func (t *traffic) counts() map[string]ruleCounts {
	all := map[string]ruleCounts{}
	add := func(name string, c *ruleTraffic) {
		n := ruleCounts{c.allowed.Load(), c.refused.Load(), c.shadowRefused.Load()}
		if n != (ruleCounts{}) {
			was := all[name]
			all[name] = ruleCounts{was.Allowed + n.Allowed, was.Refused + n.Refused, was.ShadowRefused + n.ShadowRefused}
		}
	}
	for name, c := range *t.rules.Load() {
		add(name, c)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, c := range t.others {
		add(name, c)
	}
	return all
}

// counts answers what was allowed and refused since the start. A rule that nobody has asked for is left out, so that 10,000
// rules do not make 10,000 lines each second.
func (s *Server) counts(_ http.ResponseWriter, r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	type total struct {
		Allowed int64 `json:"allowed"`
		Refused int64 `json:"refused"`
	}
	return told(struct {
		At    float64               `json:"at"`
		Rules map[string]ruleCounts `json:"rules"`
		Total total                 `json:"total"`
	}{float64(time.Now().UnixMilli()) / 1e3, s.traffic.counts(), total{s.traffic.allowed.Load(), s.traffic.refused.Load()}})
}
