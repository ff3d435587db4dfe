package hotkeys

import (
	"cmp"
	"slices"
	"strings"
)

// An Entry is a hot key. Its true count is at least Count and at most Count + Error, as of some moment of the call that
// returned it.
type Entry struct {
	Rule string
	// Key is the key; of one above 200 bytes, its first 200, a "…" and a part of a hash.
	Key string
	// Count is what is sure to have been observed: an even stream of r a second counts r × window.
	Count float64
	// Error is how much more it may have been.
	Error float64
}

// Top returns the n hottest keys of the rule, or of all rules if it is "", hottest first. Keys that count less than a half are
// left out.
func (t *Tracker) Top(rule string, n int, by By) []Entry {
	if n <= 0 || by >= orders {
		return nil
	}
	step := t.step()
	var shot snapshot
	var top []Entry
	for name, r := range *t.rules.Load() {
		if rule != "" && rule != name {
			continue
		}
		if s := r.by[by].Load(); s != nil {
			top = hottest(append(top, shot.top(s, name, "", n, step)...), n)
		}
	}
	if s := t.others.by[by].Load(); s != nil {
		// A rule that found room late has older keys here.
		top = hottest(append(top, shot.top(s, "", rule, n, step)...), n)
	}
	return top
}

// Total returns the count of all keys of the rule, or of all rules if it is "". It is exact, but for a rule that had or has to
// share its keys with others, of which only what they have together is counted, under "".
func (t *Tracker) Total(rule string, by By) (total float64) {
	if by >= orders {
		return 0
	}
	step := t.step()
	for name, r := range *t.rules.Load() {
		if s := r.by[by].Load(); s != nil && (rule == "" || rule == name) {
			total += s.weigh(step)
		}
	}
	if s := t.others.by[by].Load(); s != nil && rule == "" {
		total += s.weigh(step)
	}
	return total
}

// hottest joins entries of the same key and returns the n hottest.
func hottest(es []Entry, n int) []Entry {
	slices.SortFunc(es, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Key, b.Key))
	})
	joined := es[:0]
	for _, e := range es {
		if last := len(joined) - 1; last >= 0 && joined[last].Rule == e.Rule && joined[last].Key == e.Key {
			joined[last].Count += e.Count
			joined[last].Error += e.Error
			continue
		}
		joined = append(joined, e)
	}
	slices.SortStableFunc(joined, func(a, b Entry) int { return cmp.Compare(b.Count, a.Count) })
	return joined[:min(n, len(joined))]
}

// snapshot is what was copied of a summary, part by part, so that no lock is held for longer than a copy takes.
type snapshot struct {
	parts [parts]copied
	sums  map[id]*sum
	order []*sum
}

type copied struct {
	fade          float64
	foreign       float64
	ids           []id
	counts, errs  []float64
	cells         []float64
	names         []byte
	ends, ruleLen []int // of each name in names
}

// sum is a key in all the parts where it is watched.
type sum struct {
	id          id
	sure, error float64
	in          uint8 // a bit for each part
	part, slot  int   // where its name stands
}

func (c *copied) take(p *part, step int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.fade, c.foreign = p.fade(step), p.foreign
	c.ids = append(c.ids[:0], p.ids...)
	c.counts = append(c.counts[:0], p.counts...)
	c.errs = append(c.errs[:0], p.errs...)
	c.cells = append(c.cells[:0], p.cells...)
	c.names, c.ends, c.ruleLen = c.names[:0], c.ends[:0], c.ruleLen[:0]
	for slot := range p.ids {
		c.names = append(c.names, p.names[slot].text...)
		c.ends = append(c.ends, len(c.names))
		c.ruleLen = append(c.ruleLen, p.names[slot].rule)
	}
}

func (c *copied) name(slot int) (rule, key string) {
	start := 0
	if slot > 0 {
		start = c.ends[slot-1]
	}
	text := string(c.names[start:c.ends[slot]])
	return text[:c.ruleLen[slot]], text[c.ruleLen[slot]:]
}

// top returns the n hottest keys of a summary: that of the named rule, or the one that rules share, of which those of only are
// wanted unless that is "".
func (sn *snapshot) top(s *summary, named, only string, n int, step int64) []Entry {
	for i := range s.parts {
		sn.parts[i].take(&s.parts[i], step)
	}
	sn.sum()
	slices.SortFunc(sn.order, func(a, b *sum) int { return cmp.Compare(b.sure, a.sure) })
	es := make([]Entry, 0, min(n, len(sn.order)))
	for _, k := range sn.order {
		if len(es) == n || k.sure < least {
			break
		}
		rule, key := sn.parts[k.part].name(k.slot)
		if named != "" {
			rule = named
		} else if only != "" && rule != only {
			continue
		}
		es = append(es, Entry{Rule: rule, Key: key, Count: k.sure, Error: k.error})
	}
	return es
}

// sum adds up what the parts know of each key.
func (sn *snapshot) sum() {
	if sn.sums == nil {
		sn.sums = make(map[id]*sum)
	}
	clear(sn.sums)
	sn.order = sn.order[:0]
	for i := range sn.parts {
		c := &sn.parts[i]
		for slot, k := range c.ids {
			known := sn.sums[k]
			if known == nil {
				known = &sum{id: k, part: i, slot: slot}
				sn.sums[k] = known
				sn.order = append(sn.order, known)
			}
			known.in |= 1 << i
			known.sure += (c.counts[slot] - c.errs[slot]) * c.fade
			known.error += c.errs[slot] * c.fade
		}
	}
	// Where a key is not watched it may count as much as its cell does; away from home, no more than all strangers there.
	for _, k := range sn.order {
		for other := range group {
			i := k.id.part() ^ other
			c := &sn.parts[i]
			if k.in&(1<<i) != 0 {
				continue
			}
			may := c.cells[k.id.cell()]
			if other != 0 {
				may = min(may, c.foreign)
			}
			k.error += may * c.fade
		}
	}
}
