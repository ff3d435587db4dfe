package envoy

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tidegate-go/tidegate"
)

const (
	codeOK   = ratelimitv3.RateLimitResponse_OK
	codeOver = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// answered is a response and what it is made of. It can be used again, when nobody has the response any more.
type answered struct {
	response ratelimitv3.RateLimitResponse
	parts    []answeredPart
	statuses []*ratelimitv3.RateLimitResponse_DescriptorStatus
}

// answeredPart is what is answered about one descriptor.
type answeredPart struct {
	status ratelimitv3.RateLimitResponse_DescriptorStatus
	reset  durationpb.Duration
}

// forget makes the response an empty one that keeps nothing alive but its own arrays.
func (a *answered) forget() {
	a.response.Reset()
	a.parts = emptied(a.parts)
	a.statuses = emptied(a.statuses)
}

// room makes the response one about so many descriptors of which nothing is said yet.
func (a *answered) room(n int) {
	a.forget()
	a.parts = sized(a.parts, n)
	a.statuses = sized(a.statuses, n)
	for i := range a.parts {
		a.statuses[i] = &a.parts[i].status
	}
	a.response.Statuses = a.statuses[:n:n]
}

// respond makes the answer of what was decided, in the room that there is for it.
func (s *Service) respond(w *work, req *ratelimitv3.RateLimitRequest, in *answered) *ratelimitv3.RateLimitResponse {
	in.room(len(w.asked))
	resp := &in.response
	resp.OverallCode = codeOK
	now := time.Now()
	charged := s.cfg.Metrics != nil && w.charged()
	for i := range w.asked {
		one := &w.asked[i]
		if s.status(w, one, &in.parts[i], now) && !s.cfg.Shadow {
			resp.OverallCode = codeOver
		}
		if s.cfg.Metrics != nil && one.charge >= 0 {
			s.cfg.Metrics.count(one, req.GetDescriptors()[i], req.GetDomain(), &w.decisions[one.charge], charged)
		}
	}
	if s.cfg.Headers {
		resp.ResponseHeadersToAdd = headers(in.statuses)
	}
	if s.cfg.DynamicMetadata {
		resp.DynamicMetadata = s.metadata(w, req)
	}
	return resp
}

// status fills in what became of one descriptor, and reports whether it refuses the request.
func (s *Service) status(w *work, a *asked, part *answeredPart, now time.Time) bool {
	st := &part.status
	st.Code = codeOK
	switch {
	case a.limit == nil:
		return false
	case a.limit.unlimited:
		st.LimitRemaining = math.MaxUint32
		return false
	}
	decision := &w.decisions[a.charge]
	st.CurrentLimit = a.limit.wire
	st.LimitRemaining = remaining(decision.Remaining)
	part.reset.Seconds = a.limit.reset(decision, now)
	st.DurationUntilReset = &part.reset
	if decision.Allowed || a.limit.shadow || s.quota(a.limit) {
		return false
	}
	st.Code = codeOver
	return true
}

// reset is in how many seconds, rounded up, there will be more: for a window when the next one begins, by the store's clock
// where it was asked for something and by ours where it has nothing to tell; for a bucket when it is full, or, where it
// refused, when the same would pass.
func (l *limit) reset(d *tidegate.Decision, now time.Time) int64 {
	after := d.ResetAfter
	switch {
	case l.limit.Algorithm == tidegate.None, l.limit.Algorithm == tidegate.FixedWindow && after <= 0:
		length := int64(lengths[l.wire.GetUnit()]/time.Second) * max(1, int64(l.wire.GetUnitMultiplier().GetValue()))
		return length - now.Unix()%length
	case !d.Allowed && d.RetryAfter != tidegate.Never && l.limit.Algorithm != tidegate.FixedWindow:
		after = d.RetryAfter
	}
	return int64((after + time.Second - 1) / time.Second)
}

// headers tell of the descriptor that refuses the request, else of the one that has the least left.
func headers(statuses []*ratelimitv3.RateLimitResponse_DescriptorStatus) []*corev3.HeaderValue {
	var least *ratelimitv3.RateLimitResponse_DescriptorStatus
	over := false
	for _, st := range statuses {
		switch {
		case st.GetCurrentLimit() == nil:
		case st.GetCode() == codeOver:
			least, over = st, true
		case !over && (least == nil || st.GetLimitRemaining() < least.GetLimitRemaining()):
			least = st
		}
	}
	if least == nil {
		return nil
	}
	return []*corev3.HeaderValue{
		{Key: "RateLimit-Limit", Value: strconv.FormatUint(uint64(least.GetCurrentLimit().GetRequestsPerUnit()), 10)},
		{Key: "RateLimit-Remaining", Value: strconv.FormatUint(uint64(least.GetLimitRemaining()), 10)},
		{Key: "RateLimit-Reset", Value: strconv.FormatInt(least.GetDurationUntilReset().GetSeconds(), 10)},
	}
}
