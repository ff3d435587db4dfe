package server

import (
	"net/http"
	"time"

	"github.com/tidegate-go/tidegate/resilience"
)

// maxShares is of how many rules the share is told.
const maxShares = 1000

type stateReply struct {
	State    string             `json:"state"`
	Since    time.Time          `json:"since"`
	Reason   string             `json:"reason"`
	Replicas *int               `json:"replicas"`
	Store    string             `json:"store"`
	Version  string             `json:"version"`
	Uptime   int64              `json:"uptime_seconds"`
	Latency  quantiles          `json:"store_latency_seconds"`
	Source   string             `json:"rules_source"`
	Editable bool               `json:"editable"`
	EditHint string             `json:"edit_hint"`
	TokenSet bool               `json:"token_set"`
	Shares   map[string]float64 `json:"shares"`
	Breakers []breakerReply     `json:"breakers"`
}

type quantiles struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

type breakerReply struct {
	Rule  string    `json:"rule"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// state answers how the server is.
func (s *Server) state(_ http.ResponseWriter, r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	now := time.Now()
	st := stateReply{
		State: "healthy", Since: s.began.UTC(), Store: s.cfg.StoreName, Version: s.cfg.Version,
		Uptime: int64(now.Sub(s.began).Seconds()), TokenSet: s.token != nil,
		Shares: map[string]float64{}, Breakers: []breakerReply{},
	}
	recent := s.metrics.calls.recent.quantiles(now, .5, .99)
	st.Latency = quantiles{recent[0], recent[1]}
	st.Source, st.Editable, st.EditHint = s.followed.told()
	if s.status != nil {
		s.sharedState(&st)
	} else if since, failing, err := s.watched.trouble(); failing {
		st.State, st.Since, st.Reason = "degraded", since.UTC(), "the store does not answer: "+cause(err).Error()
	}
	for _, b := range s.guard.Status() {
		st.Breakers = append(st.Breakers, breakerReply{b.Rule, b.State.String(), now.Add(-b.Lasted).UTC()})
	}
	return told(st)
}

// sharedState adds what a store tells that is shared.
func (s *Server) sharedState(st *stateReply) {
	status := s.status()
	st.Since, st.Reason = status.Since.UTC(), reasonOf(status)
	switch status.State {
	case resilience.Fallback:
		st.State = "degraded"
	case resilience.Returning:
		st.State = "returning"
	case resilience.Shared:
	}
	if status.Replicas > 0 {
		st.Replicas = &status.Replicas
	}
	for rule := range s.traffic.counts() { // the others have none yet
		if len(st.Shares) == maxShares {
			break
		}
		st.Shares[rule] = s.share(rule)
	}
}
