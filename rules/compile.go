package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// snapshot is a set and what was worked out for it; immutable.
type snapshot struct {
	set    *Set
	rules  []compiled
	byName map[string]*compiled
	index  *index
	ends   bool // whether any limit has an end, so that the time matters
	clock  func() time.Time
	limits map[tidegate.Limit]*tidegate.Limit
}

// compiled is a rule with what deciding needs.
type compiled struct {
	*Rule
	version   int64
	plans     []plan // of the rule's own limit, then of its overrides
	overrides overrideIndex
	enforced  uint64                    // a hash below it is enforced
	salt      [32]byte                  // keys the hash, so that two rules pick other keys
	never     *stage                    // refuses a request for what it lacks
	told      map[int64]*tidegate.Limit // by capacity: see [Engine.LimitOf]
}

// plan is a limit that may have an end.
type plan struct {
	now   stage
	until time.Time
	then  stage
}

// stage is a limit and when it came to count. The pointer is the same for limits that are the same, from one set to the
// next too, since stores keep what they worked out for a pointer.
type stage struct {
	limit   *tidegate.Limit
	version int64
	limiter atomic.Pointer[tidegate.Limiter] // for what is held; made when it is first needed
}

// at returns the stage that counts at the moment.
func (p *plan) at(now time.Time) *stage {
	if !p.until.IsZero() && !now.Before(p.until) {
		return &p.then
	}
	return &p.now
}

// compile works out a set that was changed at the moment, in µs, and follows the former snapshot, if there is one.
func compile(set *Set, at int64, former *snapshot, clock func() time.Time) *snapshot {
	now := clock()
	s := &snapshot{
		set:    set,
		clock:  clock,
		rules:  make([]compiled, len(set.rules)),
		byName: make(map[string]*compiled, len(set.rules)),
		index:  newIndex(set.rules),
		limits: make(map[tidegate.Limit]*tidegate.Limit),
	}
	for i, r := range set.rules {
		c := &s.rules[i]
		c.Rule = r
		s.byName[r.Name] = c
		c.version = versionOf(r, at, former, now)
		c.plans = make([]plan, 1+len(r.Overrides))
		s.plan(&c.plans[0], &r.Limit, c.version)
		for j := range r.Overrides {
			s.plan(&c.plans[1+j], &r.Overrides[j].Limit, c.version)
		}
		c.overrides = newOverrideIndex(r)
		c.enforced = math.MaxUint64
		if r.Enforce < 1 {
			c.enforced = uint64(r.Enforce * math.MaxUint64)
			c.salt = sha256.Sum256([]byte(r.Name))
		}
		c.never = &stage{limit: s.intern(tidegate.Limit{Algorithm: tidegate.None}, former), version: c.version}
	}
	for i := range s.rules {
		for j := range s.rules[i].plans {
			p := &s.rules[i].plans[j]
			p.now.limit = s.intern(*p.now.limit, former)
			p.then.limit = s.intern(*p.then.limit, former)
		}
		s.rules[i].told = limitsByCapacity(s.rules[i].plans)
	}
	return s
}

func (s *snapshot) plan(p *plan, l *Limit, version int64) {
	p.now.limit, p.now.version = &l.Limit, version
	p.then.limit, p.then.version = &l.Then, version
	if !l.Until.IsZero() {
		s.ends = true
		p.until = l.Until
		p.then.version = max(l.Until.UnixMicro(), version)
	}
}

// intern returns one pointer for all limits that are the same, the former snapshot's if it has one.
func (s *snapshot) intern(l tidegate.Limit, former *snapshot) *tidegate.Limit {
	if p := s.limits[l]; p != nil {
		return p
	}
	var p *tidegate.Limit
	if former != nil {
		p = former.limits[l]
	}
	if p == nil {
		p = &l
	}
	s.limits[l] = p
	return p
}

// versionOf is when the limits of the rule were changed: as before if they are what they were, else at the moment, but
// after every version that the former limits had so far.
func versionOf(r *Rule, at int64, former *snapshot, now time.Time) int64 {
	if former == nil {
		return at
	}
	was := former.byName[r.Name]
	if was == nil {
		return at
	}
	if sameLimits(r, was.Rule) {
		return was.version
	}
	latest := was.version
	for i := range was.plans {
		latest = max(latest, was.plans[i].at(now).version)
	}
	return max(at, latest+1)
}

// sameLimits reports whether every key has the same limit under both.
func sameLimits(a, b *Rule) bool {
	return sameLimit(&a.Limit, &b.Limit) && slices.EqualFunc(a.Overrides, b.Overrides, func(a, b Override) bool {
		return sameLimit(&a.Limit, &b.Limit) && a.Match.String() == b.Match.String()
	})
}

func sameLimit(a, b *Limit) bool {
	return a.Limit == b.Limit && a.Then == b.Then && a.Until.Equal(b.Until)
}

// isEnforced reports whether the rule is enforced for the key. The buffer is for the text that is hashed, and is returned
// to be used again.
func (c *compiled) isEnforced(key string, buffer []byte) (bool, []byte) {
	switch {
	case c.Shadow:
		return false, buffer
	case c.Enforce == 1:
		return true, buffer
	}
	return hashedBelow(c.enforced, &c.salt, key, buffer)
}

// hashedBelow reports whether the hash of the key is below.
func hashedBelow(below uint64, salt *[sha256.Size]byte, key string, buffer []byte) (bool, []byte) {
	buffer = append(append(buffer[:0], salt[:]...), key...)
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:8]) < below, buffer
}

// EnforcedFor reports whether the rule is enforced for a key, as a [tidegate.Charge] has it, or in shadow.
func (r *Rule) EnforcedFor(key string) bool {
	switch {
	case r.Shadow:
		return false
	case r.Enforce == 1:
		return true
	}
	salt := sha256.Sum256([]byte(r.Name))
	var space [256]byte // so that keys of the usual lengths allocate nothing
	is, _ := hashedBelow(uint64(r.Enforce*math.MaxUint64), &salt, key, space[:0])
	return is
}

// overrideIndex finds the first override that matches. What it costs grows with the overrides that have globs or several
// conditions, not with those of single values.
type overrideIndex struct {
	values []map[string]int // for each part of the key, the first override of the value alone
	scan   []int            // the others, in their order
	parts  [][]int          // for each of the others, the part of the key that each condition is on
}

func newOverrideIndex(r *Rule) overrideIndex {
	var ix overrideIndex
	if len(r.Overrides) == 0 {
		return ix
	}
	ix.values = make([]map[string]int, len(r.Key))
	for i := range r.Overrides {
		m := r.Overrides[i].Match
		var values []string
		if len(m) == 1 && len(m[0].none) == 0 {
			values = m[0].exact()
		}
		parts := make([]int, len(m))
		for j := range m {
			parts[j] = slices.Index(r.Key, m[j].Attribute) // there: Parse refuses others
		}
		if values == nil {
			ix.scan, ix.parts = append(ix.scan, i), append(ix.parts, parts)
			continue
		}
		by := &ix.values[parts[0]]
		if *by == nil {
			*by = make(map[string]int)
		}
		for _, v := range values {
			if _, taken := (*by)[v]; !taken {
				(*by)[v] = i
			}
		}
	}
	return ix
}

// override returns the first override that the parts of the key match; -1 if none does.
func (c *compiled) override(parts []string) int {
	first := len(c.Overrides)
	if first == 0 {
		return -1
	}
	for i, by := range c.overrides.values {
		if n, ok := by[parts[i]]; ok {
			first = min(first, n)
		}
	}
	for i, n := range c.overrides.scan {
		if n > first {
			break
		}
		m := c.Overrides[n].Match
		fits := true
		for j := range m {
			if !m[j].holds(parts[c.overrides.parts[i][j]], true) {
				fits = false
				break
			}
		}
		if fits {
			first = n
			break
		}
	}
	if first == len(c.Overrides) {
		return -1
	}
	return first
}
