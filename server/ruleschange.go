package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

const (
	// maxRulesBody has room for the longest file of rules that a source takes, with every line end and quote escaped.
	maxRulesBody = 2*source.MaxText + maxBody
	// maxFor is for how long a limit may be given: a year.
	maxFor = 366 * 86_400
	// changeTime bounds a change at the source of the rules.
	changeTime = 5 * time.Second
)

type changeBody struct {
	YAML       *string `json:"yaml"`
	Rule       *string `json:"rule"`
	Limit      *string `json:"limit"`
	ForSeconds *int64  `json:"for_seconds"`
	Version    *int64  `json:"version"`
}

// mistake is one in a file of rules, as the API tells it.
type mistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// changeRules replaces the rules, or the limit of one.
func (s *Server) changeRules(w http.ResponseWriter, r *http.Request) (reply, error) {
	if err := s.authorize(r, "a change of rules"); err != nil {
		return reply{}, err
	}
	l := s.followed.follower()
	if _, editable, hint := s.followed.told(); !editable || l == nil {
		return reply{}, &apiError{status: http.StatusConflict, message: hint}
	}
	var b changeBody
	if err := readBody(w, r, maxRulesBody, &b); err != nil {
		return reply{}, err
	}
	if err := b.check(); err != nil {
		return reply{}, err
	}
	text, err := s.changed(&b)
	if err != nil {
		return reply{}, changeFailure(err)
	}
	if err := source.CheckPush(text, changedBy(r), *b.Version); err != nil {
		return reply{}, badRequest("%v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), changeTime)
	defer cancel()
	version, err := l.Replace(ctx, text, changedBy(r), *b.Version)
	if err != nil {
		s.log.Warn("a change of the rules over the API was not made", slog.String("by", changedBy(r)), slog.Any("error", changeFailure(err)))
		return reply{}, changeFailure(err)
	}
	return told(struct {
		Version int64 `json:"version"`
	}{version})
}

// check says what the body lacks, or has too much of.
func (b *changeBody) check() error {
	switch {
	case b.Version == nil:
		return badRequest(`"version" is missing: send that of GET /v1/rules, so that nobody's change is undone unseen`)
	case *b.Version < 0:
		return badRequest(`"version" is %d: send that of GET /v1/rules`, *b.Version)
	case (b.YAML == nil) == (b.Rule == nil):
		return badRequest(`"yaml" is a whole file, and "rule" and "limit" change one limit: send the one or the other`)
	case b.YAML != nil && (b.Limit != nil || b.ForSeconds != nil):
		return badRequest(`"limit" and "for_seconds" go with "rule", not with "yaml"`)
	case b.Rule != nil && b.Limit == nil:
		return badRequest(`"limit" is missing: send it as in {"rule":"example","limit":"20/s","version":0}`)
	case b.ForSeconds != nil && (*b.ForSeconds < 1 || *b.ForSeconds > maxFor):
		return badRequest(`"for_seconds" is %d: it must be from 1 to %d; leave it out for good`, *b.ForSeconds, maxFor)
	case b.ForSeconds != nil && strings.Contains(strings.ToLower(*b.Limit), "until"):
		return badRequest(`"for_seconds" says when the limit ends: leave "until" out of "limit"`)
	}
	return nil
}

// changed is the text that the body makes of the rules.
func (s *Server) changed(b *changeBody) ([]byte, error) {
	if b.YAML != nil {
		return []byte(*b.YAML), nil
	}
	limit := strings.TrimSpace(*b.Limit)
	if b.ForSeconds != nil {
		limit += fmt.Sprintf(" until %ds", *b.ForSeconds)
	}
	set := s.set()
	version, text := s.document(set)
	if version != *b.Version { // the text would be that of another version
		return nil, &source.ConflictError{Expected: *b.Version, Current: version}
	}
	if set.Rule(*b.Rule) == nil {
		return nil, &rules.UnknownRuleError{Rule: *b.Rule}
	}
	return rules.WithLimit("rules", []byte(text), *b.Rule, limit)
}

// changedBy says who makes a change as far as is known: whoever has the token, from that address.
func changedBy(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "api"
	}
	return "api from " + host
}

// changeFailure turns an error of a change into one that says how the request is answered.
func changeFailure(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if es, ok := errors.AsType[rules.Errors](err); ok {
		e := &apiError{status: http.StatusUnprocessableEntity, message: "the rules are bad, and stay as they are: " + firstLine(es)}
		for _, m := range es {
			e.mistakes = append(e.mistakes, mistake{m.Line, m.Column, m.Problem, m.Hint})
		}
		return e
	}
	if e, ok := errors.AsType[*rules.UnknownRuleError](err); ok {
		return notFound("there is no rule %q", e.Rule)
	}
	if e, ok := errors.AsType[*source.ConflictError](err); ok {
		return &apiError{status: http.StatusConflict, message: fmt.Sprintf(
			"version %d was expected, but version %d is there: get it, and make the change to that", e.Expected, e.Current)}
	}
	if errors.Is(err, source.ErrReadOnly) {
		return &apiError{status: http.StatusConflict, message: err.Error()}
	}
	return unavailable("the change was not made: " + err.Error())
}

// firstLine is the first mistake, and how many there are.
func firstLine(es rules.Errors) string {
	if len(es) == 1 {
		return es[0].Error()
	}
	return fmt.Sprintf("%s, and %d more", es[0].Error(), len(es)-1)
}
