package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

const breakerText = `version: 1
rules:
  - name: database
    key: [db]
    limit: 1000/s
    breaker: {failure_ratio: 50%, minimum_calls: 4, open_time: 1h}
  - name: reports
    key: [user]
    limit: 100/s
    tighten: {breaker: database, to: 0%}
`

func TestOutcomesTripABreaker(t *testing.T) {
	var log bytes.Buffer
	s := newLiveServer(t, breakerText, &Config{Token: testToken, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 4 {
		wantReply(t, post(s, "/v1/outcome", `{"rule":"database","seconds":0,"outcome":"failure"}`), http.StatusOK, `{"recorded":true}`)
	}
	if w := post(s, "/v1/take", `{"rule":"database","key":"a"}`); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("behind an open breaker a take is answered %d %s", w.Code, w.Body)
	}
	if w := post(s, "/v1/take", `{"rule":"reports","key":"a"}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("what is shed is answered %d %s", w.Code, w.Body)
	}
	if w := post(s, "/v1/try", `{"attributes":{"user":"a"}}`); !strings.HasPrefix(w.Body.String(), `{"decision":{"allowed":false`) {
		t.Errorf("and tried, %s", w.Body)
	}
	st := fetched[stateReply](t, s, "/v1/state")
	if len(st.Breakers) != 1 || st.Breakers[0].Rule != "database" || st.Breakers[0].State != "open" {
		t.Errorf("the breakers are %+v", st.Breakers)
	}
	changes := fetched[struct{ Changes []change }](t, s, "/v1/changes?n=1").Changes
	if len(changes) != 1 || changes[0].Source != "breaker" || changes[0].Rule != "database" || !strings.Contains(changes[0].After, "open") {
		t.Errorf("the changes are %+v", changes)
	}
	if !strings.Contains(log.String(), `level=WARN msg="a breaker has changed" rule=database from=closed to=open`) {
		t.Errorf("the log is %s", &log)
	}
	metrics := call(s, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		`tidegate_breaker_state{rule="database",state="open"} 1`, `tidegate_breaker_state{rule="database",state="closed"} 0`,
		`tidegate_breaker_changes_total{rule="database",state="open"} 1`,
		`tidegate_decisions_total{outcome="denied",rule="database",source="fallback"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}

	// A change of another rule leaves the breaker as it is; one that takes it away closes the matter.
	version := fetched[rulesReply](t, s, "/v1/rules").Version
	if code, body := put(s, `{"rule":"reports","limit":"7/s","version":0}`); version != 0 || code != http.StatusOK {
		t.Fatal(version, code, body)
	}
	if w := post(s, "/v1/take", `{"rule":"database","key":"a"}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("after a change of another rule: %d", w.Code)
	}
	s.Swap(newLiveServer(t, exampleText, nil).Engine().Set(), s.began)
	wantError(t, post(s, "/v1/outcome", `{"rule":"database","outcome":"ok"}`), http.StatusNotFound, "has no breaker")
	if metrics := call(s, http.MethodGet, "/metrics", "").Body.String(); strings.Contains(metrics, "tidegate_breaker_state{") {
		t.Error("/metrics tells of a breaker that is gone")
	}
}

func TestOutcomeMisuse(t *testing.T) {
	s := newLiveServer(t, breakerText, nil)
	for body, status := range map[string]int{
		`{"rule":"nobody","seconds":1,"outcome":"ok"}`:     404,
		`{"rule":"reports","seconds":1,"outcome":"ok"}`:    404,
		`{"rule":"database","seconds":1,"outcome":"fine"}`: 400,
		`{"rule":"database","seconds":-1,"outcome":"ok"}`:  400,
		`{"rule":"database","seconds":1e9,"outcome":"ok"}`: 400,
		`{"rule":"database","seconds":"1","outcome":"ok"}`: 400,
		`{"rule":"database","seconds":1}`:                  400,
		`{"outcome":"ok"}`:                                 400,
		`{"rule":"database","outcome":"ok","took":1}`:      400,
	} {
		wantError(t, post(s, "/v1/outcome", body), status, "")
	}
	wantError(t, call(s, http.MethodGet, "/v1/outcome", ""), http.StatusMethodNotAllowed, "POST")
}
