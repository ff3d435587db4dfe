package rules

import (
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"
)

// reached is the overrides of a rule that came before, to find one that takes all of another. A file may have 10,000, so that not
// each is held against each: an override of single values is found by them, and every other by a feature of its patterns that
// whatever it covers has too, the one that the fewest overrides share.
type reached struct {
	values   map[string]int // the line of the override, by attribute and exact value: those with this one condition alone
	features map[feature]int
	under    map[feature][]*Override
	lengths  map[featureKind][]int // of the texts of the features that are used, by kind and attribute
	always   []*Override           // those that only exclude, which have no feature
	compared int                   // how many pairs were held against each other
}

// feature is something that a pattern has, and that all patterns have which it covers.
type feature struct {
	featureKind

	text string
}

type featureKind struct {
	attribute string
	of        featureOf
}

type featureOf uint8

const (
	itsValue  featureOf = iota // it is that value
	itsStart                   // it begins so, before any wildcard
	itsEnd                     // it ends so
	itsMiddle                  // it has this, at one place between wildcards
	itsBlock4                  // it is within that block: the text is its address and the number of its bits
	itsBlock6
)

// longestMiddle bounds the features of what is between wildcards, of which each place of a text may be one.
const longestMiddle = 16

// newReached returns what finds them once they are added: those of the overrides whose node is not nil.
func newReached(overrides []Override, nodes []*yaml.Node) *reached {
	reach := &reached{
		values: map[string]int{}, features: map[feature]int{}, under: map[feature][]*Override{}, lengths: map[featureKind][]int{},
	}
	for i := range overrides {
		o := &overrides[i]
		if nodes[i] == nil || o.values() != nil {
			continue
		}
		for j := range o.Match {
			c := &o.Match[j]
			for k := range c.any {
				for _, f := range c.any[k].features(c.Attribute) {
					reach.features[f]++
				}
			}
		}
	}
	return reach
}

// values returns the only values that the override is for, where it has one condition and that names them; else nil.
func (o *Override) values() []string {
	if len(o.Match) != 1 || len(o.Match[0].none) > 0 {
		return nil
	}
	return o.Match[0].exact()
}

// add takes the override, which has no values, among those that came before.
func (reach *reached) add(o *Override) {
	var best []feature // of the patterns of one condition: each is found by one
	least := 0
	for i := range o.Match {
		c := &o.Match[i]
		if len(c.any) == 0 {
			continue
		}
		chosen, shared := make([]feature, 0, len(c.any)), 0
		for j := range c.any {
			f := reach.rarest(c.any[j].features(c.Attribute))
			chosen = append(chosen, f)
			shared += reach.features[f]
		}
		if best == nil || shared < least {
			best, least = chosen, shared
		}
	}
	if best == nil {
		reach.always = append(reach.always, o)
		return
	}
	for _, f := range best {
		if at := reach.under[f]; len(at) > 0 && at[len(at)-1] == o {
			continue // two of its patterns share it
		}
		reach.under[f] = append(reach.under[f], o)
		lengths := reach.lengths[f.featureKind]
		if at, known := slices.BinarySearch(lengths, f.length()); !known {
			reach.lengths[f.featureKind] = slices.Insert(lengths, at, f.length())
		}
	}
}

// rarest returns the feature that the fewest patterns have.
func (reach *reached) rarest(fs []feature) feature {
	return slices.MinFunc(fs, func(a, b feature) int { return reach.features[a] - reach.features[b] })
}

// covering returns the first override that takes all that this one matches; nil if none is sure to.
func (reach *reached) covering(o *Override) *Override {
	var first *Override
	try := func(earlier []*Override) {
		for _, e := range earlier {
			reach.compared++
			if (first == nil || e.Line < first.Line) && e.Match.covers(o.Match) {
				first = e
			}
		}
	}
	try(reach.always)
	for i := range o.Match {
		c := &o.Match[i]
		if len(c.any) > 0 { // whatever covers the condition covers this pattern of it
			c.any[0].implied(c.Attribute, reach, func(f feature) { try(reach.under[f]) })
		}
	}
	return first
}

// features returns features of the pattern, at least one.
func (p *pattern) features(attribute string) []feature {
	of := func(kind featureOf, text string) feature { return feature{featureKind{attribute, kind}, text} }
	switch p.kind {
	case blockPattern:
		return []feature{blockFeature(attribute, p.block)}
	case exactPattern:
		return []feature{of(itsValue, p.literal)}
	case globPattern:
	}
	fs := []feature{of(itsStart, p.literal)}
	last := len(p.parts) - 1
	if end := p.parts[last].literal; end != "" {
		fs = append(fs, of(itsEnd, end))
	}
	for _, part := range p.parts[1:last] {
		if text := part.literal; text != "" {
			n := min(len(text), longestMiddle)
			fs = append(fs, of(itsMiddle, text[:n]), of(itsMiddle, text[len(text)-n:]))
		}
	}
	return fs
}

// implied calls do with each feature of those used that a pattern has which covers p.
func (p *pattern) implied(attribute string, reach *reached, do func(feature)) {
	each := func(kind featureOf, longest int, text func(length int) string) {
		k := featureKind{attribute, kind}
		for _, n := range reach.lengths[k] {
			if n > longest {
				break
			}
			do(feature{k, text(n)})
		}
	}
	if p.kind == blockPattern {
		kind := blockFeature(attribute, p.block).of
		each(kind, p.block.Bits(), func(bits int) string {
			return blockFeature(attribute, netip.PrefixFrom(p.block.Addr(), bits).Masked()).text
		})
		return
	}
	if p.kind == exactPattern {
		do(feature{featureKind{attribute, itsValue}, p.literal})
	}
	start, end := p.literal, p.parts[len(p.parts)-1].literal
	each(itsStart, len(start), func(n int) string { return start[:n] })
	each(itsEnd, len(end), func(n int) string { return end[len(end)-n:] })
	k := featureKind{attribute, itsMiddle}
	for _, n := range reach.lengths[k] {
		seen := map[string]bool{}
		for _, part := range p.parts {
			for i := 0; i+n <= len(part.literal); i++ {
				if text := part.literal[i : i+n]; !seen[text] {
					seen[text] = true
					do(feature{k, text})
				}
			}
		}
	}
}

// blockFeature is the feature of a block: the bits that its addresses share, and how many those are.
func blockFeature(attribute string, block netip.Prefix) feature {
	kind := itsBlock6
	if block.Addr().Is4() {
		kind = itsBlock4
	}
	return feature{featureKind{attribute, kind}, string(append(block.Addr().AsSlice(), byte(block.Bits())))}
}

// length is that of the text, of a block the number of bits.
func (f feature) length() int {
	if f.of == itsBlock4 || f.of == itsBlock6 {
		return int(f.text[len(f.text)-1])
	}
	return len(f.text)
}
