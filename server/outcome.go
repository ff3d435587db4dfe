package server

import (
	"net/http"
	"time"

	"github.com/tidegate-go/tidegate/downstream"
)

// maxSeconds is the longest call that can be told of: a day.
const maxSeconds = 86_400

type outcomeBody struct {
	Rule    *string  `json:"rule"`
	Seconds *float64 `json:"seconds"`
	Outcome *string  `json:"outcome"`
}

// outcome tells the breaker of a rule how a call of what is behind it went.
func (s *Server) outcome(w http.ResponseWriter, r *http.Request) (reply, error) {
	var b outcomeBody
	if err := readBody(w, r, maxBody, &b); err != nil {
		return reply{}, err
	}
	if b.Rule == nil || b.Outcome == nil {
		return reply{}, badRequest(`"rule" and "outcome" are needed, as in {"rule":"database","seconds":0.12,"outcome":"ok"}`)
	}
	var o downstream.Outcome
	switch *b.Outcome {
	case "ok":
		o = downstream.Succeeded
	case "failure":
		o = downstream.Failed
	default:
		return reply{}, badRequest(`"outcome" is %q: it must be ok or failure`, *b.Outcome)
	}
	seconds := 0.0
	if b.Seconds != nil {
		seconds = *b.Seconds
	}
	if seconds < 0 || seconds > maxSeconds {
		return reply{}, badRequest(`"seconds" is how long the call took: from 0 to %d`, maxSeconds)
	}
	if err := s.guard.Record(*b.Rule, time.Duration(seconds*float64(time.Second)), o); err != nil {
		return reply{}, err
	}
	return done("recorded"), nil
}
