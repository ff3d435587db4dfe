package server

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate/rules/live"
)

const (
	shownChanges = 100
	maxChanges   = 500
	maxTrips     = 200
)

// audits keep what has changed: rules, and the states of breakers, apart, so that a breaker that trips again and again does
// not make the changes of rules forgotten.
type audits struct {
	rules, breakers *live.Audit
	trips           *prometheus.CounterVec
}

func newAudits() audits {
	return audits{
		rules: live.NewAudit(maxChanges), breakers: live.NewAudit(maxTrips),
		trips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_breaker_changes_total",
			Help: "Changes of the state of the breaker of a rule, by the state that began.",
		}, []string{"rule", "state"}),
	}
}

// change is a change as the API tells it.
type change struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Source  string    `json:"source"`
	Version int64     `json:"version"`
	Rule    string    `json:"rule"`
	Before  string    `json:"before"`
	After   string    `json:"after"`
}

// changes answers what has changed, the latest first.
func (s *Server) changes(_ http.ResponseWriter, r *http.Request) (reply, error) {
	q, err := query(r, "n")
	if err != nil {
		return reply{}, err
	}
	n, err := number(q, "n", shownChanges, 1, maxChanges)
	if err != nil {
		return reply{}, err
	}
	all := append(s.audits.rules.Changes(), s.audits.breakers.Changes()...)
	slices.SortStableFunc(all, func(a, b live.Change) int { return b.At.Compare(a.At) })
	shown := []change{}
	for _, c := range all[:min(n, len(all))] {
		source := c.Source
		if c.Source != breakerSource {
			source = sourceName(c.Source)
		}
		shown = append(shown, change{c.At.UTC(), c.By, source, c.Version, c.Rule, c.Before, c.After})
	}
	return told(struct {
		Changes []change `json:"changes"`
	}{shown})
}
