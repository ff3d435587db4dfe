package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// users is how many different ones the tests of cardinality have.
const users = 100_000

// series counts the series of /metrics that are ours.
func series(t *testing.T, s *Server) int {
	t.Helper()
	n := 0
	for line := range bytes.Lines(call(s, http.MethodGet, "/metrics", "").Body.Bytes()) {
		if bytes.HasPrefix(line, []byte("tidegate_")) {
			n++
		}
	}
	return n
}

// TestManyUsersNoSeries holds /metrics to as many series after 100,000 users as after a few, in every face of the API.
func TestManyUsersNoSeries(t *testing.T) {
	s := newTestServer(t, nil)
	touch := func(user int) {
		name := fmt.Sprintf("client-%d", user)
		post(s, "/v1/take", `{"rule":"example","key":"`+name+`"}`)
		if user%10 == 0 { // the rest of the paths more rarely: they are slower and no different
			post(s, "/v1/peek", `{"rule":"example","key":"`+name+`"}`)
			post(s, "/v1/acquire", `{"rule":"permits","key":"`+name+`"}`)
			post(s, "/v1/take", `{"attributes":{"tenant":"`+name+`","user":"`+name+`"}}`)
			post(s, "/v1/take", `{"rule":"`+name+`"}`) // there is no such rule
			call(s, http.MethodGet, "/"+name, "")
			call(s, http.MethodPost, "/v1/take", `{"`+name+`":1}`)
		}
	}
	// First one user, who is denied, and some more, so that each rule has decided each way.
	for range 100 {
		touch(0)
	}
	for user := range users / 100 {
		touch(user)
	}
	before := series(t, s)
	for user := range users {
		touch(user)
	}
	if after := series(t, s); after != before {
		t.Errorf("/metrics has %d series after %d users, and had %d", after, users, before)
	}
	if text := call(s, http.MethodGet, "/metrics", "").Body.String(); strings.Contains(text, "client-") {
		t.Errorf("/metrics tells a user:\n%s", text)
	}
}

// countedRules is a counter of a program.
type countedRules map[string]int

func (c countedRules) Count(rule string, o rules.Outcome, source tidegate.Source) {
	c[fmt.Sprint(rule, " ", o, " ", source)]++
}

// TestRuleDecisions counts rule by rule: what had room while another rule refused, and what only a shadow refuses.
func TestRuleDecisions(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte(`
version: 1
rules:
  - {name: wide, limit: 1000/s burst 1000}
  - {name: narrow, key: [user], limit: 1/day burst 2}
  - {name: trial, key: [user], limit: 1/day burst 1, shadow: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	own := countedRules{}
	s := newTestServer(t, &Config{Set: set, Engine: &rules.Config{Counter: own}, Token: testToken})
	for range 3 {
		post(s, "/v1/take", `{"attributes":{"user":"a"}}`)
	}
	post(s, "/v1/peek", `{"attributes":{"user":"a"}}`)
	withToken(s, "/v1/take", `{"attributes":{"user":"a"},"cost":-1}`)
	want := `
# HELP tidegate_rule_decisions_total What takes came to for each rule that they matched, by rule, outcome (allowed, denied, or shadow_denied where the rule is in shadow) and source. Peeks and refunds are not counted.
# TYPE tidegate_rule_decisions_total counter
tidegate_rule_decisions_total{outcome="allowed",rule="narrow",source="store"} 2
tidegate_rule_decisions_total{outcome="allowed",rule="trial",source="store"} 1
tidegate_rule_decisions_total{outcome="allowed",rule="wide",source="store"} 3
tidegate_rule_decisions_total{outcome="denied",rule="narrow",source="store"} 1
tidegate_rule_decisions_total{outcome="shadow_denied",rule="trial",source="store"} 2
`
	if err := testutil.GatherAndCompare(s.metrics.registry, strings.NewReader(want), "tidegate_rule_decisions_total"); err != nil {
		t.Error(err)
	}
	if n := own["narrow 1 store"]; n != 1 || len(own) != 5 {
		t.Errorf("the program's own counter was told %v", own)
	}
}
