package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// policy is a compiled limit of one version. The source is the pointer that it came by, which is compared before the value.
type policy struct {
	params  *algo.Params
	version int64
	source  *tidegate.Limit
}

// policies keeps the compiled limits, so that none is compiled twice. Buckets hold on to the ones they use.
type policies struct {
	mu     sync.RWMutex
	byID   map[policyID]*policy
	recent atomic.Pointer[policy] // the one that was asked for last
}

type policyID struct {
	limit   tidegate.Limit
	version int64
}

// maxPolicies bounds the cache for a program that changes limits all day; it starts anew beyond.
const maxPolicies = 10_000

func (ps *policies) init() { ps.byID = make(map[policyID]*policy) }

// last returns the policy that was asked for last, if it is of that limit and version.
func (ps *policies) last(limit *tidegate.Limit, version int64) *policy {
	if p := ps.recent.Load(); p != nil && p.source == limit && p.version == version {
		return p
	}
	return nil
}

func (ps *policies) of(c *tidegate.Charge) (*policy, error) {
	if p := ps.last(c.Limit, c.Version); p != nil {
		return p, nil
	}
	key := policyID{*c.Limit, c.Version}
	ps.mu.RLock()
	p := ps.byID[key]
	ps.mu.RUnlock()
	if p != nil {
		ps.recent.Store(p)
		return p, nil
	}
	params, err := algo.Compile(*c.Limit)
	if err != nil {
		return nil, err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p = ps.byID[key]; p == nil {
		if len(ps.byID) >= maxPolicies {
			clear(ps.byID)
		}
		p = &policy{params, c.Version, c.Limit}
		ps.byID[key] = p
	}
	ps.recent.Store(p)
	return p, nil
}

// resolve returns the policy that decides a charge of a bucket that holds current, which is nil for a new one: the newer
// of the two. If that is another limit than the state was kept under, it converts the state, which must then be kept
// even if nothing is charged: what carries over into a window counts from the change, not from each later look at it.
func (ps *policies) resolve(current *policy, state *algo.State, c *tidegate.Charge, now int64, s *Store) (p *policy, converted bool, err error) {
	if current != nil && current.source == c.Limit && current.version == c.Version {
		return current, false, nil
	}
	asked, err := ps.of(c)
	switch {
	case err != nil:
		return nil, false, err
	case current == nil || !state.Used():
		return asked, false, nil
	case current.params.Spec == asked.params.Spec:
		if asked.version >= current.version {
			return asked, false, nil
		}
		return current, false, nil
	case asked.version < current.version:
		return current, false, nil
	}
	now = s.clockOf(asked.params, now)
	change, tie := asked.version, asked.version == current.version
	if tie {
		change = now
	}
	*state = state.Clone() // what is behind it is still the bucket's
	asked.params.Convert(current.params, state, change, now, asked.params.Window(now), tie)
	return asked, true, nil
}
