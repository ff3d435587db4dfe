package hotkeys

import (
	"math"
	"math/bits"
	"strconv"
	"sync"
)

const (
	parts       = 8   // of a summary
	group       = 4   // parts that stand in for one another while one is locked
	cellsInPart = 512 // of keys that are not watched
	maxName     = 200 // bytes of a key that are kept

	// least is what a count must be for its key to be reported: a single observation fades below it in 0.7 windows.
	least = 0.5
	// Weights grow instead of counts fading: an observation weighs e^(steps since the base / steps in a window), and all is
	// divided again when that gets large.
	rebaseAfter = 32 * stepsPerWindow
	// After so many steps nothing is left of any count: the largest are below 2^53 times a weight of 1.
	goneAfter = 64 * stepsPerWindow
)

// id is a keyed hash of 128 bits: nobody who does not know the seeds can choose two keys that share one.
type id struct{ a, b uint64 }

// under mixes in a rule.
func (i id) under(rule id) id {
	return id{i.a ^ bits.RotateLeft64(rule.a, 31), i.b ^ bits.RotateLeft64(rule.b, 31)}
}

func (i id) part() int { return int(i.b % parts) }
func (i id) cell() int { return int(i.b / parts % cellsInPart) }

// summary watches the hottest keys of a rule by one order.
type summary struct {
	parts [parts]part
}

// part watches some of them, under a lock of its own.
type part struct {
	mu sync.Mutex

	base, step int64   // an observation at base weighs 1, one at step weighs weight
	weight     float64 // e^((step-base)/stepsPerWindow)

	total   float64 // all that was observed here
	foreign float64 // what belongs to other parts of the group, and came here while they were locked
	floor   float64 // no watched key counts less; they may all count more

	ids    []id      // of watched keys
	counts []float64 // what each counts at most
	errs   []float64 // what of that may be others'
	names  []name
	cells  []float64 // what all keys of a cell that are not watched count together at most

	_ [64]byte // keeps two locks out of one cache line
}

// name is what is shown of a key: the rule, if it shares its summary with others, and the key.
type name struct {
	text []byte
	rule int // bytes of the rule
}

func newSummary(keys int) *summary {
	s := &summary{}
	n := (keys + parts - 1) / parts
	for i := range s.parts {
		s.parts[i] = part{
			weight: 1,
			ids:    make([]id, 0, n),
			counts: make([]float64, 0, n),
			errs:   make([]float64, 0, n),
			names:  make([]name, n),
			cells:  make([]float64, cellsInPart),
		}
	}
	return s
}

// observe adds to a key's count in its part; while that is locked, in another of its group; while all are, it waits.
func (s *summary) observe(i id, rule, key string, n float64, step int64) {
	home := i.part()
	for other := range group {
		if p := &s.parts[home^other]; p.mu.TryLock() {
			p.add(i, rule, key, n, step, other != 0)
			p.mu.Unlock()
			return
		}
	}
	p := &s.parts[home]
	p.mu.Lock()
	p.add(i, rule, key, n, step, false)
	p.mu.Unlock()
}

func (p *part) add(i id, rule, key string, n float64, step int64, foreign bool) {
	if step > p.step {
		p.advance(step)
	}
	w := n * p.weight
	p.total += w
	if foreign {
		p.foreign += w
	}
	for slot := range p.ids {
		if p.ids[slot] == i {
			p.counts[slot] += w
			return
		}
	}
	before := p.cells[i.cell()]
	slot := len(p.ids)
	if slot < cap(p.ids) {
		p.ids = append(p.ids, i)
		p.counts = append(p.counts, 0)
		p.errs = append(p.errs, 0)
		p.floor = 0
	} else if slot = p.lighter(before + w); slot < 0 {
		p.cells[i.cell()] = before + w
		return
	} else {
		cell := p.ids[slot].cell()
		p.cells[cell] = max(p.cells[cell], p.counts[slot])
	}
	// What the cell counted may have been this key's. It stays there as well, for the other keys of the cell.
	before = p.cells[i.cell()]
	p.ids[slot], p.counts[slot], p.errs[slot] = i, before+w, before
	p.names[slot].set(i, rule, key)
}

// lighter returns the lightest of the watched keys, -1 if none is lighter than that.
func (p *part) lighter(than float64) int {
	if than <= p.floor {
		return -1
	}
	lightest := 0
	for slot, c := range p.counts {
		if c < p.counts[lightest] {
			lightest = slot
		}
	}
	p.floor = p.counts[lightest]
	if than <= p.floor {
		return -1
	}
	return lightest
}

// advance moves to a later step.
func (p *part) advance(step int64) {
	if step-p.base >= rebaseAfter {
		by := 0.0
		if step-p.base < goneAfter+rebaseAfter {
			by = math.Exp(-float64(step-p.base) / stepsPerWindow)
		}
		p.rebase(by)
		p.base = step
	}
	p.step = step
	p.weight = math.Exp(float64(step-p.base) / stepsPerWindow)
}

// rebase divides all weights, and lets go of what counts nothing any more.
func (p *part) rebase(by float64) {
	p.total *= by
	p.foreign *= by
	p.floor *= by
	for c := range p.cells {
		p.cells[c] *= by
	}
	for slot := 0; slot < len(p.ids); {
		p.counts[slot] *= by
		p.errs[slot] *= by
		if p.counts[slot] >= least {
			slot++
			continue
		}
		cell := p.ids[slot].cell()
		p.cells[cell] = max(p.cells[cell], p.counts[slot])
		last := len(p.ids) - 1
		p.ids[slot], p.counts[slot], p.errs[slot] = p.ids[last], p.counts[last], p.errs[last]
		p.names[slot], p.names[last] = p.names[last], p.names[slot]
		p.ids, p.counts, p.errs = p.ids[:last], p.counts[:last], p.errs[:last]
	}
}

// fade returns what a weight is to be multiplied by for it to be a count at the step.
func (p *part) fade(step int64) float64 {
	return math.Exp(-float64(max(step, p.step)-p.base) / stepsPerWindow)
}

// weigh returns what all observations together count at the step.
func (s *summary) weigh(step int64) (total float64) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		total += p.total * p.fade(step)
		p.mu.Unlock()
	}
	return total
}

// set keeps what is shown of a key in the room that is there. Of two long keys that begin alike, names differ in the end.
func (n *name) set(i id, rule, key string) {
	n.text = append(n.text[:0], rule...)
	n.rule = len(n.text)
	if len(key) <= maxName {
		n.text = append(n.text, key...)
		return
	}
	n.text = append(n.text, key[:maxName]...)
	n.text = append(n.text, "…"...)
	n.text = strconv.AppendUint(n.text, i.a, 36)
}
