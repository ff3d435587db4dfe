package resilience

import (
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// demand counts what rules admitted. The map is copied to add one, so that looking one up locks nothing.
type demand struct {
	mu    sync.Mutex
	rules atomic.Pointer[map[string]*tally]
	since int64 // ns: of the counts; the heartbeat's
}

// tally is what a rule admitted; it is the rule's for as long as the Store is there. Two are in no cache line together, since
// every take writes some.
type tally struct {
	atomic.Int64

	_ [56]byte
}

// maxRules bounds the rules that are counted, and toldRules those that a heartbeat tells of.
const (
	maxRules  = 1024
	toldRules = 256
)

// admitted counts what a charge admitted.
func (s *Store) admitted(c *tidegate.Charge) {
	if c.Limit.Algorithm == tidegate.None || c.Limit.Algorithm == tidegate.Unlimited {
		return
	}
	d := &s.demand
	if t := d.of(c.Rule); t != nil {
		t.Add(c.Cost)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[string]*tally{}
	if rules := d.rules.Load(); rules != nil {
		if len(*rules) >= maxRules {
			return
		}
		maps.Copy(next, *rules)
	}
	if next[c.Rule] == nil {
		next[strings.Clone(c.Rule)] = &tally{}
	}
	next[c.Rule].Add(c.Cost)
	d.rules.Store(&next)
}

// of returns a rule's tally, nil if it has none.
func (d *demand) of(rule string) *tally {
	if rules := d.rules.Load(); rules != nil {
		return (*rules)[rule]
	}
	return nil
}

// told returns what was admitted, as of a second, and what to take off the counts once the store knows.
func (d *demand) told(now int64) (perSecond, counts map[string]int64) {
	rules := d.rules.Load()
	if rules == nil {
		return nil, nil
	}
	counts = make(map[string]int64, len(*rules))
	for r, n := range *rules {
		counts[r] = n.Load()
	}
	if len(counts) > toldRules {
		counts = most(counts, toldRules)
	}
	perSecond = make(map[string]int64, len(counts))
	elapsed := max(now-d.since, int64(time.Second/10))
	for r, n := range counts {
		perSecond[r] = int64(math.Ceil(float64(n) * float64(time.Second) / float64(elapsed)))
	}
	return perSecond, counts
}

// take takes what the store knows off the counts.
func (d *demand) take(counts map[string]int64, now int64) {
	d.since = now
	rules := d.rules.Load()
	if rules == nil {
		return
	}
	for r, n := range counts {
		if c := (*rules)[r]; c != nil {
			c.Add(-n)
		}
	}
}
