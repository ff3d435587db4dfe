package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// acquire takes a permit and answers the id to renew and release it by.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b acquireBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	rule, parts, err := s.bucket(b.Rule, &b.Key)
	if err != nil {
		return reply{}, err
	}
	cost, err := costOf(b.Cost)
	switch {
	case err != nil:
		return reply{}, err
	case cost < 1:
		return reply{}, badRequest(`"cost" is %d: a permit needs at least 1; give one back with /v1/release`, cost)
	}
	h, err := s.engine.Acquire(r.Context(), rule, parts, cost)
	if err != nil {
		return reply{}, err
	}
	return s.held(rule, parts, h)
}

// settle sets the cost that a reservation turned out to have.
func (s *Server) settle(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b settleBody
	if err := readBody(w, r, maxIDBody, &b); err != nil {
		return reply{}, err
	}
	if b.Cost == nil || *b.Cost < 0 || *b.Cost > maxCost {
		return reply{}, badRequest(`"cost" must be the whole cost, from 0, which cancels, to 9007199254740991`)
	}
	err := s.withHeld(r, b.ID, func(ctx context.Context, h *heldID) error {
		return s.engine.Settle(ctx, h.rule, h.parts, h.name, *b.Cost)
	})
	if err != nil {
		return reply{}, err
	}
	return done("settled"), nil
}

// renew holds a permit for its limit's TTL from now.
func (s *Server) renew(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b idBody
	if err := readBody(w, r, maxIDBody, &b); err != nil {
		return reply{}, err
	}
	err := s.withHeld(r, b.ID, func(ctx context.Context, h *heldID) error {
		return s.engine.Renew(ctx, h.rule, h.parts, h.name)
	})
	if err != nil {
		return reply{}, err
	}
	return done("renewed"), nil
}

// release gives a permit back.
func (s *Server) release(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b idBody
	if err := readBody(w, r, maxIDBody, &b); err != nil {
		return reply{}, err
	}
	err := s.withHeld(r, b.ID, func(ctx context.Context, h *heldID) error {
		return s.engine.Release(ctx, h.rule, h.parts, h.name)
	})
	if err != nil {
		return reply{}, err
	}
	return done("released"), nil
}

// withHeld does what is to be done with the reservation or permit of the id.
func (s *Server) withHeld(r *http.Request, id *string, do func(ctx context.Context, h *heldID) error) error {
	if id == nil {
		return badRequest(`"id" is missing: send that of the take or acquire`)
	}
	h, err := parseID(*id)
	if err != nil {
		return badRequest("%v", err)
	}
	err = do(r.Context(), h)
	if _, ok := errors.AsType[*rules.UnknownRuleError](err); ok {
		return notFound("there is no rule %q any more, which this id is of", h.rule)
	}
	if _, ok := errors.AsType[*rules.KeyError](err); ok { // the rule makes its keys of something else by now
		return tidegate.ErrUnknownID
	}
	return err
}
