package rules

import (
	"net/netip"
	"slices"
)

// Match are conditions on attributes, of which a request must meet all. They are in the order of the file, and no two
// are on one attribute.
type Match []Condition

// A Condition holds for a request whose attribute fits one of the patterns. A pattern that begins with "!" holds for
// what the rest does not fit; where there are several, a value must fit none of those with "!", and one of the others if
// there are others. A request without the attribute fits only where all patterns begin with "!".
type Condition struct {
	Attribute string
	// Patterns are as the file has them: an exact value, a glob, a CIDR block for the attribute "ip".
	Patterns []string

	any  []pattern // one of these must fit, where there are any
	none []pattern // and none of these
}

// ipAttribute is the attribute whose values are addresses.
const ipAttribute = "ip"

// newCondition compiles the patterns.
func newCondition(attribute string, texts []string) (Condition, error) {
	c := Condition{Attribute: attribute, Patterns: texts}
	for _, text := range texts {
		p, negated, err := newPattern(attribute, text)
		if err != nil {
			return c, err
		}
		if negated {
			c.none = append(c.none, p)
		} else {
			c.any = append(c.any, p)
		}
	}
	return c, nil
}

// holds reports whether a request that has the value, or lacks it, meets the condition.
func (c *Condition) holds(value string, present bool) bool {
	if !present {
		return len(c.any) == 0
	}
	if c.Attribute == ipAttribute {
		return c.holdsAddress(value)
	}
	for i := range c.none {
		if c.none[i].fits(value) {
			return false
		}
	}
	for i := range c.any {
		if c.any[i].fits(value) {
			return true
		}
	}
	return len(c.any) == 0
}

func (c *Condition) holdsAddress(value string) bool {
	address, ok := parseAddress(value)
	if !ok {
		return len(c.any) == 0
	}
	for i := range c.none {
		if within(c.none[i].block, address) {
			return false
		}
	}
	for i := range c.any {
		if within(c.any[i].block, address) {
			return true
		}
	}
	return len(c.any) == 0
}

// exact returns the only values that can meet the condition, nil if others can.
func (c *Condition) exact() []string {
	if len(c.any) == 0 || c.Attribute == ipAttribute {
		return nil
	}
	values := make([]string, 0, len(c.any))
	for i := range c.any {
		if c.any[i].kind != exactPattern {
			return nil
		}
		values = append(values, c.any[i].literal)
	}
	return values
}

// parseAddress reads an address, or the block of addresses that a client is known by, such as a /64 of IPv6.
func parseAddress(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return unmapped(p).Masked(), true
	}
	return netip.Prefix{}, false
}

// unmapped turns a block of IPv4 addresses that is written in IPv6 into what it is.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}

// within reports whether all of the address, or block of them, is in the block.
func within(block, address netip.Prefix) bool {
	return block.Bits() <= address.Bits() && block.Contains(address.Addr())
}

// covers reports whether every request that meets all conditions of other meets these: true only where that is sure.
func (m Match) covers(other Match) bool {
	for i := range m {
		at := slices.IndexFunc(other, func(c Condition) bool { return c.Attribute == m[i].Attribute })
		if at < 0 || !m[i].covers(&other[at]) {
			return false
		}
	}
	return true
}

// covers reports whether every value that meets other meets c: true only where that is sure.
func (c *Condition) covers(other *Condition) bool {
	for i := range c.none {
		if !other.excludes(&c.none[i]) {
			return false
		}
	}
	if len(c.any) == 0 {
		return true
	}
	for i := range other.any {
		q := &other.any[i]
		if !slices.ContainsFunc(c.any, func(p pattern) bool { return p.covers(q) }) {
			return false
		}
	}
	return len(other.any) > 0
}

// excludes reports whether no value that meets c fits the pattern: true only where that is sure.
func (c *Condition) excludes(p *pattern) bool {
	if slices.ContainsFunc(c.none, func(q pattern) bool { return q.covers(p) }) {
		return true
	}
	for i := range c.any {
		if q := &c.any[i]; q.kind == globPattern || p.overlaps(q) {
			return false
		}
	}
	return len(c.any) > 0
}
