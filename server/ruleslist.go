package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate/rules"
)

const maxListed = 10_000

// ruleReply is a rule as the API tells it.
type ruleReply struct {
	Name           string     `json:"name"`
	Limit          string     `json:"limit"`
	Until          *time.Time `json:"until"`
	Then           string     `json:"then"`
	Match          string     `json:"match"`
	Key            []string   `json:"key"`
	Shadow         bool       `json:"shadow"`
	Enforce        float64    `json:"enforce"`
	OnStoreFailure string     `json:"on_store_failure"`
	Overrides      int        `json:"overrides"`
	Text           string     `json:"text"`
}

type rulesReply struct {
	Version  int64       `json:"version"`
	Source   string      `json:"source"`
	Editable bool        `json:"editable"`
	EditHint string      `json:"edit_hint"`
	YAML     string      `json:"yaml,omitempty"`
	Rules    []ruleReply `json:"rules"`
	Total    *int        `json:"total,omitempty"`
}

// listRules answers the rules that are in place: all of them, or a page of those that a text is found in. A page is without
// the whole text, which would be sent again with each letter that somebody searches for.
func (s *Server) listRules(_ http.ResponseWriter, r *http.Request) (reply, error) {
	q, err := query(r, "q", "offset", "limit")
	if err != nil {
		return reply{}, err
	}
	offset, err := number(q, "offset", 0, 0, 1<<31-1)
	if err != nil {
		return reply{}, err
	}
	most, err := number(q, "limit", maxListed, 1, maxListed)
	if err != nil {
		return reply{}, err
	}
	set := s.set()
	out := rulesReply{Rules: []ruleReply{}}
	out.Source, out.Editable, out.EditHint = s.followed.told()
	out.Version, out.YAML = s.document(set)
	found, text := 0, strings.ToLower(q.Get("q"))
	for _, rule := range set.Rules() {
		if !mentions(rule, text) {
			continue
		}
		if found >= offset && len(out.Rules) < most {
			out.Rules = append(out.Rules, ruleOf(rule))
		}
		found++
	}
	if len(q) > 0 {
		out.Total, out.YAML = &found, ""
	}
	return told(out)
}

// document is the text of the rules as it is at their source, with its version; written anew where there is none.
func (s *Server) document(set *rules.Set) (version int64, text string) {
	if l := s.followed.follower(); l != nil {
		if doc, ok := l.Document(); ok {
			return doc.Version, string(doc.Text)
		}
	}
	return 0, string(set.Marshal())
}

// mentions reports whether the text, in lower case, is in what tells the rule from others.
func mentions(r *rules.Rule, text string) bool {
	if text == "" {
		return true
	}
	for _, in := range []string{r.Name, r.Limit.String(), strings.Join(r.Key, " ")} {
		if strings.Contains(strings.ToLower(in), text) {
			return true
		}
	}
	return len(r.Match) > 0 && strings.Contains(strings.ToLower(r.Match.String()), text)
}

func ruleOf(r *rules.Rule) ruleReply {
	out := ruleReply{
		Name: r.Name, Limit: r.Limit.Limit.String(), Match: "", Key: append([]string{}, r.Key...),
		Shadow: r.Shadow, Enforce: r.Enforce, OnStoreFailure: r.OnStoreFailure.String(), Overrides: len(r.Overrides), Text: r.String(),
	}
	if len(r.Match) > 0 {
		out.Match = r.Match.String()
	}
	if !r.Limit.Until.IsZero() {
		out.Until, out.Then = &r.Limit.Until, r.Limit.Then.String()
	}
	return out
}
