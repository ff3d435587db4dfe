package server

import (
	"net/http"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
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
	d, err := s.engine.Decide(r.Context(), b.Attributes, cost)
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
	if b.Reserve {
		return s.reserve(r, rule, parts, cost)
	}
	d, err := s.engine.TakeKey(r.Context(), rule, parts, cost)
	if err != nil {
		return reply{}, err
	}
	return s.taken(d, cost)
}

// taken answers a take, and counts it unless it was a peek or a refund.
func (s *Server) taken(d tidegate.Decision, cost int64) (reply, error) {
	if cost > 0 {
		s.decided(&d)
	}
	return decided(d, "")
}

// reserve charges now for a start that may be later, and answers the id to settle it by.
func (s *Server) reserve(r *http.Request, rule string, parts []string, cost int64) (reply, error) {
	if cost < 1 {
		return reply{}, badRequest(`"reserve" needs a "cost" of at least 1`)
	}
	h, err := s.engine.Reserve(r.Context(), rule, parts, cost)
	if err != nil {
		return reply{}, err
	}
	return s.held(rule, parts, h)
}

// held answers a decision and the id of what the store holds since, if it does.
func (s *Server) held(rule string, parts []string, h rules.Held) (reply, error) {
	s.decided(&h.Decision)
	id := ""
	if h.Decision.Allowed && h.Decision.Source != tidegate.SourceUnlimited && h.ID != "" {
		id = (&heldID{rule: rule, parts: parts, name: h.ID}).String()
	}
	return decided(h.Decision, id)
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
		var rule string
		var parts []string
		if rule, parts, err = s.bucket(b.Rule, &b.Key); err == nil {
			d, err = s.engine.TakeKey(r.Context(), rule, parts, 0)
		}
	case b.Rule != nil || b.Key.form != keyAbsent:
		err = badRequest(`"attributes" go without "rule" and "key": give the one or the other`)
	default:
		d, err = s.engine.Decide(r.Context(), b.Attributes, 0)
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
	if err := s.engine.Reset(r.Context(), rule, parts); err != nil {
		return reply{}, err
	}
	return done("reset"), nil
}

// bucket finds the bucket that a request names by rule and key.
func (s *Server) bucket(name *string, k *keyParts) (rule string, parts []string, err error) {
	if name == nil {
		return "", nil, badRequest(`"rule" is missing: name one, as in {"rule":"example","key":"user:1"}`)
	}
	r := s.engine.Set().Rule(*name)
	if r == nil {
		return "", nil, notFound("there is no rule %q", *name)
	}
	parts, err = k.fit(r)
	return *name, parts, err
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
