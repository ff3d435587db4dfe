package server

import (
	"context"
	"net/http"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

type tryBody struct {
	Attributes attributes `json:"attributes"`
	Cost       *int64     `json:"cost"`
}

// matchedRule is a rule that attributes fit, as the API tells it.
type matchedRule struct {
	Rule     string            `json:"rule"`
	Limit    string            `json:"limit"`
	Override *int              `json:"override"`
	Key      []string          `json:"key"`
	Shadow   bool              `json:"shadow"`
	Decision tidegate.Decision `json:"decision"`
}

// matchedCharge is a rule and what it would be charged.
type matchedCharge struct {
	rules.Matched

	cost int64
}

// try answers which rules a request of those attributes meets, and what would be decided. It charges nothing.
func (s *Server) try(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b tryBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	if b.Attributes == nil {
		return reply{}, badRequest(`"attributes" is missing: send what is known of the request, as in {"attributes":{"path":"/"}}`)
	}
	cost, err := costOf(b.Cost)
	switch {
	case err != nil:
		return reply{}, err
	case cost < 0:
		return reply{}, badRequest(`"cost" is %d: a refund cannot be tried, so it must be at least 0`, cost)
	}
	matched, err := s.engine.Match(b.Attributes, cost, nil)
	if err != nil {
		return reply{}, err
	}
	charges := make([]matchedCharge, len(matched))
	for i := range matched {
		charges[i] = matchedCharge{matched[i], matched[i].Charge.Cost}
	}
	d, all, err := s.peeked(r.Context(), charges)
	if err != nil {
		return reply{}, err
	}
	if s.cfg.Engine == nil || s.cfg.Engine.Guard == nil {
		if refused, ok := s.guard.Peek(matched); !ok {
			d = refused
		}
	}
	return told(struct {
		Decision tidegate.Decision `json:"decision"`
		Matched  []matchedRule     `json:"matched"`
	}{d, all})
}

// peeked says what would be decided of charges, and charges nothing.
func (s *Server) peeked(ctx context.Context, all []matchedCharge) (tidegate.Decision, []matchedRule, error) {
	matched := make([]rules.Matched, len(all))
	charges := make([]tidegate.Charge, len(all))
	for i := range all {
		matched[i] = all[i].Matched
		matched[i].Charge.Cost = 0
		charges[i] = matched[i].Charge
	}
	if _, err := s.engine.Take(ctx, matched); err != nil {
		return tidegate.Decision{}, nil, err
	}
	decisions := make([]tidegate.Decision, len(all))
	out := make([]matchedRule, len(all))
	for i := range matched {
		m := &matched[i]
		weigh(&m.Decision, m.Charge.Limit, all[i].cost) //nolint:gosec // there are as many
		decisions[i] = m.Decision
		out[i] = matchedRule{
			Rule: m.Rule.Name, Limit: m.Charge.Limit.String(), Key: s.partsOf(m.Rule.Name, m.Charge.Key),
			Shadow: m.Charge.Shadow, Decision: m.Decision,
		}
		if m.Lacking {
			out[i].Key = []string{}
		}
		if m.Override >= 0 {
			out[i].Override = &m.Override
		}
	}
	return tidegate.Combine(charges, decisions), out, nil
}

// weigh makes the decision of a peek, which is about a cost of 1, one about a cost. How long such a cost has to wait is exact
// for a token bucket; for others it is when the bucket is as good as new, by when it passes.
func weigh(d *tidegate.Decision, limit *tidegate.Limit, cost int64) {
	if cost <= 1 || d.Limit == tidegate.NoLimit || d.Remaining >= cost || d.Unavailable() {
		return
	}
	d.Allowed = false
	if cost > d.Limit {
		d.RetryAfter = tidegate.Never
		return
	}
	wait := d.ResetAfter
	if limit.Algorithm == tidegate.TokenBucket && limit.Warmup == 0 && limit.Rate > 0 {
		wait -= time.Duration(float64(d.Limit-cost) * float64(limit.Per) / float64(limit.Rate))
	}
	d.RetryAfter = max(d.RetryAfter, wait)
}
