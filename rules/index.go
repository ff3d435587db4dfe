package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// index finds the rules that a request can match, by one condition of each: the one that the fewest others share. What it
// costs grows with the rules that share a value, a prefix or a block with the request, not with all.
type index struct {
	attributes []attributeIndex
	always     []int32 // the rules that no condition singles out, in their order
}

// attributeIndex finds rules by the value of one attribute.
type attributeIndex struct {
	name     string
	exact    map[string][]int32
	prefixes map[string][]int32 // by the literal beginning of a glob
	lengths  []int              // of the prefixes, each once, from the shortest
	blocks   map[netip.Prefix][]int32
	bits     []int // of the blocks, each once, from the shortest: of IPv4 and IPv6 together
}

// handle is a text that every request which meets a condition has: its value, or how it begins.
type handle struct {
	attribute, text string
	prefix          bool
}

// handles returns one handle for each pattern of the condition; none if a request can meet it without any.
func (c *Condition) handles() []handle {
	if len(c.any) == 0 || c.Attribute == ipAttribute {
		return nil
	}
	hs := make([]handle, 0, len(c.any))
	for i := range c.any {
		p := &c.any[i]
		if p.literal == "" && p.kind == globPattern {
			return nil
		}
		hs = append(hs, handle{c.Attribute, p.literal, p.kind == globPattern})
	}
	return hs
}

func newIndex(rules []*Rule) *index {
	shared := map[handle]int{} // how many rules have the handle
	for _, r := range rules {
		for i := range r.Match {
			for _, h := range r.Match[i].handles() {
				shared[h]++
			}
		}
	}
	ix := &index{}
	byName := map[string]*attributeIndex{}
	of := func(name string) *attributeIndex {
		if byName[name] == nil {
			byName[name] = &attributeIndex{
				name: name, exact: map[string][]int32{}, prefixes: map[string][]int32{}, blocks: map[netip.Prefix][]int32{},
			}
		}
		return byName[name]
	}
	for n, r := range rules {
		c := choose(r.Match, shared)
		if c == nil {
			ix.always = append(ix.always, int32(n))
			continue
		}
		of(c.Attribute).add(c, int32(n))
	}
	for _, a := range byName {
		slices.Sort(a.lengths)
		a.lengths = slices.Compact(a.lengths)
		slices.Sort(a.bits)
		a.bits = slices.Compact(a.bits)
		ix.attributes = append(ix.attributes, *a)
	}
	slices.SortFunc(ix.attributes, func(a, b attributeIndex) int { return strings.Compare(a.name, b.name) })
	return ix
}

// choose returns the condition whose values the fewest rules share; nil if none singles the rule out.
func choose(m Match, shared map[handle]int) *Condition {
	var best *Condition
	least := 0
	for i := range m {
		most := 0
		if m[i].Attribute == ipAttribute {
			if len(m[i].any) == 0 {
				continue
			}
			most = 2 // blocks lie in each other: what shares a value does not tell
		} else if hs := m[i].handles(); len(hs) == 0 {
			continue
		} else {
			for _, h := range hs {
				most = max(most, shared[h])
			}
		}
		if best == nil || most < least {
			best, least = &m[i], most
		}
	}
	return best
}

func (a *attributeIndex) add(c *Condition, rule int32) {
	for i := range c.any {
		switch p := &c.any[i]; p.kind {
		case exactPattern:
			a.exact[p.literal] = append(a.exact[p.literal], rule)
		case globPattern:
			a.prefixes[p.literal] = append(a.prefixes[p.literal], rule)
			a.lengths = append(a.lengths, len(p.literal))
		case blockPattern:
			a.blocks[p.block] = append(a.blocks[p.block], rule)
			a.bits = append(a.bits, p.block.Bits())
		}
	}
}

// candidates appends the rules that the value can match.
func (a *attributeIndex) candidates(value string, dst []int32) []int32 {
	dst = append(dst, a.exact[value]...)
	for _, n := range a.lengths {
		if n > len(value) {
			break
		}
		dst = append(dst, a.prefixes[value[:n]]...)
	}
	if len(a.bits) == 0 {
		return dst
	}
	address, ok := parseAddress(value)
	if !ok {
		return dst
	}
	for _, n := range a.bits {
		if n > address.Bits() {
			break
		}
		if block, err := address.Addr().Prefix(n); err == nil {
			dst = append(dst, a.blocks[block]...)
		}
	}
	return dst
}
