package envoy

import (
	"errors"
	"fmt"
	"math"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	bucketkey "github.com/tidegate-go/tidegate/internal/key"
)

// maxDescriptors bounds what one request may ask for, and with it how long it holds the store.
const maxDescriptors = 256

// RequestError says what is wrong with a request; its text is for whoever sent it.
type RequestError struct{ Problem string }

func (e *RequestError) Error() string { return e.Problem }

func requestErrorf(format string, args ...any) error {
	return &RequestError{fmt.Sprintf(format, args...)}
}

// ErrNoConfig says that no good files have been read yet, so that there is nothing to decide by.
var ErrNoConfig = errors.New("no rate limit configuration is loaded")

// check refuses what no answer can be given to.
func check(req *ratelimitv3.RateLimitRequest) error {
	switch n := len(req.GetDescriptors()); {
	case req.GetDomain() == "":
		return requestErrorf("rate limit domain must not be empty")
	case n == 0:
		return requestErrorf("rate limit descriptor list must not be empty")
	case n > maxDescriptors:
		return requestErrorf("there are %d rate limit descriptors, and at most %d are answered", n, maxDescriptors)
	}
	return nil
}

// match is the limit that a descriptor has, if any.
func (d *domain) match(desc *commonv3.RateLimitDescriptor) *limit {
	n := &d.root
	entries := desc.GetEntries()
	for i, e := range entries {
		next := n.find(e.GetKey(), e.GetValue())
		if next == nil {
			return nil
		}
		if i == len(entries)-1 {
			return next.limit
		}
		if next.leaf() {
			return nil
		}
		n = next
	}
	return nil
}

// keyOf is the key of the bucket that a descriptor's values name.
func (l *limit) keyOf(desc *commonv3.RateLimitDescriptor) string {
	entries := desc.GetEntries()
	value := func(i int) string {
		if l.shared != nil && l.shared[i] {
			return ""
		}
		return entries[i].GetValue()
	}
	if len(entries) == 1 {
		return value(0)
	}
	var room [8]string
	values := room[:0]
	for i := range entries {
		values = append(values, value(i))
	}
	return bucketkey.Join(values)
}

// costOf is what a descriptor is to be charged: its own hits go before those of the request, and may be 0, which asks
// without charging; those of the request are at least 1.
func costOf(req *ratelimitv3.RateLimitRequest, desc *commonv3.RateLimitDescriptor) (int64, error) {
	own := desc.GetHitsAddend()
	if own == nil {
		hits := max(1, int64(req.GetHitsAddend()))
		if desc.GetIsNegativeHits() {
			hits = -hits
		}
		return hits, nil
	}
	hits := own.GetValue()
	if hits > maxHits {
		return 0, requestErrorf("a hits_addend of %d is above %d, up to which hits are counted exactly", hits, int64(maxHits))
	}
	if desc.GetIsNegativeHits() {
		return -int64(hits), nil
	}
	return int64(hits), nil
}

// maxHits keeps costs where a store counts exactly; no limit is larger.
const maxHits = 1<<53 - 1

// remaining is what an answer tells of what is left.
func remaining(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
