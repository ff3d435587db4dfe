package envoy

import (
	"sync"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidegate-go/tidegate"
	bucketkey "github.com/tidegate-go/tidegate/internal/key"
)

// A proxy may send a limit along with a descriptor, which then goes before all of the files. Each such limit has rules of
// its own, named for the keys and itself: a bucket never meets two limits of which neither is the newer one.

// overrideID is the limit that a request brought, and for what.
type overrideID struct {
	rule                 string // of the domain and the keys
	requests, multiplier uint32
	unit                 Unit
}

// overrides remembers the limits that were brought.
type overrides struct {
	algorithm tidegate.Algorithm

	mu  sync.RWMutex
	all map[overrideID]*limit
}

// maxOverrides bounds them; beyond, they are worked out anew.
const maxOverrides = 10_000

// of returns the limit that the descriptor of a known domain brings.
func (o *overrides) of(domain string, desc *commonv3.RateLimitDescriptor) (*limit, error) {
	brought := desc.GetLimit()
	id := overrideID{
		requests:   brought.GetRequestsPerUnit(),
		multiplier: 1,
		unit:       Unit(brought.GetUnit()),
	}
	if m := brought.GetUnitMultiplier(); m != nil {
		if id.multiplier = m.GetValue(); id.multiplier == 0 {
			return nil, requestErrorf("the unit_multiplier of a limit is 0: leave it out, or make it at least 1")
		}
	}
	parts := make([]string, 0, 1+len(desc.GetEntries()))
	parts = append(parts, domain)
	for _, e := range desc.GetEntries() {
		parts = append(parts, equals.Replace(e.GetKey()))
	}
	id.rule = bucketkey.Join(parts)
	o.mu.RLock()
	l := o.all[id]
	o.mu.RUnlock()
	if l != nil {
		return l, nil
	}
	l, err := o.make(id, brought.GetUnitMultiplier(), domain, parts)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if have := o.all[id]; have != nil {
		return have, nil
	}
	if o.all == nil || len(o.all) >= maxOverrides {
		o.all = map[overrideID]*limit{}
	}
	o.all[id] = l
	return l, nil
}

func (o *overrides) make(id overrideID, multiplier *wrapperspb.UInt32Value, domain string, parts []string) (*limit, error) {
	counted, err := limitOf(id.requests, id.unit, id.multiplier, o.algorithm)
	if err == nil && lengths[id.unit] == 0 {
		_, err = limitOf(1, id.unit, id.multiplier, o.algorithm) // nothing passes at any unit, but the answer tells one
	}
	if err != nil {
		return nil, requestErrorf("the limit that a descriptor brings: %v", err)
	}
	levels := make([]*node, 0, len(parts)-1)
	for _, p := range parts[1:] {
		levels = append(levels, &node{key: p})
	}
	wire := &ratelimitv3.RateLimitResponse_RateLimit{RequestsPerUnit: id.requests, Unit: id.unit}
	if multiplier != nil {
		wire.UnitMultiplier = wrapperspb.UInt32(multiplier.GetValue())
	}
	return &limit{
		wire:   wire,
		limit:  counted,
		rule:   id.rule + "=" + counted.String(),
		label:  domain + "=brought", // keys that a request makes up must not become labels
		levels: levels,
	}, nil
}
