package server

import (
	"net/http"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/key"
)

// maxCost keeps costs where a store counts exactly; no limit is larger.
const maxCost = 1<<53 - 1

// take charges a rule's bucket, or those of all rules that the attributes fit.
func (s *Server) take(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b takeBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	cost, err := costOf(b.Cost)
	if err != nil {
		return reply{}, err
	}
	if cost < 0 {
		if err := s.authorize(r, "a refund (a negative cost)"); err != nil {
			return reply{}, err
		}
	}
	switch {
	case b.Rule == nil && b.Attributes == nil:
		return reply{}, badRequest(`"rule" and "key" name one bucket, and "attributes" all that they fit: give the one or the other`)
	case b.Attributes == nil:
		return s.takeRule(r, &b, cost)
	case b.Rule != nil || b.Key.form != keyAbsent:
		return reply{}, badRequest(`"attributes" go without "rule" and "key": give the one or the other`)
	case b.Reserve:
		return reply{}, badRequest(`"reserve" needs a "rule" and its "key"`)
	}
	d, err := s.takeMatching(r, b.Attributes, cost)
	if err != nil {
		return reply{}, err
	}
	return s.taken(d, cost)
}

func (s *Server) takeRule(r *http.Request, b *takeBody, cost int64) (reply, error) {
	rule, parts, err := s.bucket(b.Rule, &b.Key)
	if err != nil {
		return reply{}, err
	}
	if rule.isPermits() {
		return reply{}, plainTake(rule)
	}
	if b.Reserve {
		return s.reserve(r, rule, parts, cost)
	}
	d, err := rule.limiter.AllowN(r.Context(), key.Join(parts), cost)
	if err != nil {
		return reply{}, err
	}
	return s.taken(d, cost)
}

// taken answers a take, and counts it unless it was a peek or a refund.
func (s *Server) taken(d tidegate.Decision, cost int64) (reply, error) {
	if cost > 0 {
		s.metrics.decision(&d)
	}
	return decided(d, "")
}

// reserve charges now for a start that may be later, and answers the id to settle it by.
func (s *Server) reserve(r *http.Request, rule *rule, parts []string, cost int64) (reply, error) {
	if cost < 1 {
		return reply{}, badRequest(`"reserve" needs a "cost" of at least 1`)
	}
	res, err := rule.limiter.ReserveN(r.Context(), key.Join(parts), cost)
	if err != nil {
		return reply{}, err
	}
	return s.held(rule, parts, res.Decision(), res.ID())
}

// held answers a decision and the id of what the store holds since, if it does.
func (s *Server) held(rule *rule, parts []string, d tidegate.Decision, name string) (reply, error) {
	s.metrics.decision(&d)
	id := ""
	if d.Allowed && d.Source != tidegate.SourceUnlimited && name != "" {
		id = (&heldID{rule: rule.Name, parts: parts, name: name}).String()
	}
	return decided(d, id)
}

// takeMatching charges the cost to all rules that the attributes fit, all or nothing, or peeks with a cost of 0.
func (s *Server) takeMatching(r *http.Request, a attributes, cost int64) (tidegate.Decision, error) {
	matches := s.rules.matching(a)
	if len(matches) == 0 {
		return tidegate.Combine(nil, nil), nil
	}
	charges := make([]tidegate.Charge, len(matches))
	for i, m := range matches {
		if m.rule.isPermits() && cost != 0 {
			return tidegate.Decision{}, plainTake(m.rule)
		}
		charges[i] = m.rule.charge(m.key, cost)
	}
	decisions, err := s.store.Take(r.Context(), charges, make([]tidegate.Decision, 0, len(charges)))
	if err != nil {
		return tidegate.Decision{}, err
	}
	return tidegate.Combine(charges, decisions), nil
}

// peek answers whether a cost of 1 would pass.
func (s *Server) peek(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b peekBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	var d tidegate.Decision
	var err error
	switch {
	case b.Attributes == nil:
		var rule *rule
		var parts []string
		if rule, parts, err = s.bucket(b.Rule, &b.Key); err == nil {
			d, err = rule.limiter.Peek(r.Context(), key.Join(parts))
		}
	case b.Rule != nil || b.Key.form != keyAbsent:
		err = badRequest(`"attributes" go without "rule" and "key": give the one or the other`)
	default:
		d, err = s.takeMatching(r, b.Attributes, 0)
	}
	if err != nil {
		return reply{}, err
	}
	return decided(d, "")
}

// reset makes a bucket as good as new.
func (s *Server) reset(w http.ResponseWriter, r *http.Request) (reply, error) {
	if err := s.authorize(r, "a reset"); err != nil {
		return reply{}, err
	}
	var b resetBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	rule, parts, err := s.bucket(b.Rule, &b.Key)
	if err != nil {
		return reply{}, err
	}
	if err := rule.limiter.Reset(r.Context(), key.Join(parts)); err != nil {
		return reply{}, err
	}
	return done("reset"), nil
}

// bucket finds the bucket that a request names by rule and key.
func (s *Server) bucket(name *string, k *keyParts) (*rule, []string, error) {
	if name == nil {
		return nil, nil, badRequest(`"rule" is missing: name one, as in {"rule":"example","key":"user:1"}`)
	}
	rule := s.rules.named(*name)
	if rule == nil {
		return nil, nil, notFound("there is no rule %q", *name)
	}
	parts, err := k.fit(rule)
	return rule, parts, err
}

func plainTake(r *rule) error {
	return badRequest("rule %q is one of permits, which are held until they are released: take one with /v1/acquire", r.Name)
}

// costOf is the cost of a request, which may leave it out.
func costOf(cost *int64) (int64, error) {
	switch {
	case cost == nil:
		return 1, nil
	case *cost > maxCost || *cost < -maxCost:
		return 0, badRequest(`"cost" is %d: it must be below 9007199254740992`, *cost)
	}
	return *cost, nil
}
