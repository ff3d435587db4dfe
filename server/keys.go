package server

import (
	"net/http"
	"net/url"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/hotkeys"
	"github.com/tidegate-go/tidegate/internal/key"
)

const (
	hotKeys    = 20
	maxHotKeys = 256 // as many as are watched
)

// hotKey is one of the hottest keys. Its true count is from count to count + error.
type hotKey struct {
	Rule  string   `json:"rule"`
	Key   []string `json:"key"`
	Count float64  `json:"count"`
	Error float64  `json:"error"`
}

// keys answers the hottest keys of this replica, or how one key is.
func (s *Server) keys(_ http.ResponseWriter, r *http.Request) (reply, error) {
	q, err := query(r, "rule", "key", "by", "n")
	if err != nil {
		return reply{}, err
	}
	if q.Has("key") {
		return s.oneKey(r, q)
	}
	by := hotkeys.ByTraffic
	switch q.Get("by") {
	case "refusals":
		by = hotkeys.ByRefusals
	case "traffic", "":
	default:
		return reply{}, badRequest(`"by" is %q: it must be traffic or refusals`, q.Get("by"))
	}
	n, err := number(q, "n", hotKeys, 1, maxHotKeys)
	if err != nil {
		return reply{}, err
	}
	rule := q.Get("rule")
	if rule != "" && s.engine.Set().Rule(rule) == nil {
		return reply{}, notFound("there is no rule %q", rule)
	}
	hot := []hotKey{}
	for _, e := range s.hot.Top(rule, n, by) {
		hot = append(hot, hotKey{e.Rule, s.partsOf(e.Rule, e.Key), e.Count, e.Error})
	}
	return told(struct {
		Keys   []hotKey `json:"keys"`
		Window float64  `json:"window_seconds"`
	}{hot, s.hot.Window().Seconds()})
}

// partsOf are the parts of a key that the tracker has. One that it had to shorten is told as one part.
func (s *Server) partsOf(rule, joined string) []string {
	r := s.engine.Set().Rule(rule)
	if r == nil {
		return []string{joined}
	}
	parts, ok := key.Split(joined, len(r.Key))
	switch {
	case !ok:
		return []string{joined}
	case parts == nil:
		return []string{}
	}
	return parts
}

// oneKey answers what a rule would decide for a key, and charges nothing.
func (s *Server) oneKey(r *http.Request, q url.Values) (reply, error) {
	for _, name := range []string{"by", "n"} {
		if q.Has(name) {
			return reply{}, badRequest(`%q goes without "key", which asks for one key alone`, name)
		}
	}
	if !q.Has("rule") {
		return reply{}, badRequest(`"rule" is missing: a key is one of a rule`)
	}
	rule, parts := q.Get("rule"), q["key"]
	if known := s.engine.Set().Rule(rule); known != nil && len(known.Key) == 0 && len(parts) == 1 && parts[0] == "" {
		parts = nil // ?key= is how a query says that there is none
	}
	m, err := s.engine.MatchKey(rule, parts, 0)
	if err != nil {
		return reply{}, err
	}
	_, one, err := s.peeked(r.Context(), []matchedCharge{{m, 0}})
	if err != nil {
		return reply{}, err
	}
	return told(struct {
		Rule     string            `json:"rule"`
		Key      []string          `json:"key"`
		Limit    string            `json:"limit"`
		Override *int              `json:"override"`
		Decision tidegate.Decision `json:"decision"`
	}{rule, one[0].Key, one[0].Limit, one[0].Override, one[0].Decision})
}
