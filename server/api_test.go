package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/live"
	"github.com/tidegate-go/tidegate/rules/source"
)

// newLiveServer returns a server whose rules are those of the text, kept in memory, and can be changed.
func newLiveServer(t *testing.T, text string, cfg *Config) *Server {
	t.Helper()
	set, err := rules.Parse("rules", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if cfg == nil {
		cfg = &Config{Token: testToken}
	}
	cfg.Set = set
	s := newTestServer(t, cfg)
	follow(t, s, live.NewMemory([]byte(text), "the built-in example"))
	return s
}

// follow makes the server follow a source until the test ends.
func follow(t *testing.T, s *Server, src source.Source) {
	t.Helper()
	l, err := s.LiveRules(src)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	if err := l.First(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const exampleText = "version: 1\nrules:\n  - name: example # ours\n    key: [key]\n    limit: 10/s burst 20\n"

func put(s *Server, body string) (int, string) {
	w := call(s, http.MethodPut, "/v1/rules", body, "Authorization", "Bearer "+testToken)
	return w.Code, w.Body.String()
}

// fetched reads an answer of 200.
func fetched[T any](t *testing.T, s *Server, path string) T {
	t.Helper()
	w := call(s, http.MethodGet, path, "")
	var v T
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	return v
}

func TestALimitIsChanged(t *testing.T) {
	s := newLiveServer(t, exampleText, nil)
	if code, body := put(s, `{"rule":"example","limit":"3/s burst 5","version":0}`); code != http.StatusOK {
		t.Fatal(code, body)
	}
	var d struct {
		Limit int64 `json:"limit"`
	}
	if err := json.Unmarshal(post(s, "/v1/take", `{"rule":"example","key":"a"}`).Body.Bytes(), &d); err != nil || d.Limit != 5 {
		t.Errorf("the next take is decided by a limit of %d, %v", d.Limit, err)
	}
	got := fetched[rulesReply](t, s, "/v1/rules")
	if want := strings.Replace(exampleText, "10/s burst 20", "3/s burst 5", 1); got.YAML != want || got.Source != "example" || !got.Editable {
		t.Errorf("the rules are %+v", got)
	}
	if len(got.Rules) != 1 || got.Rules[0].Limit != "3/s burst 5" || got.Total != nil {
		t.Errorf("the list is %+v", got.Rules)
	}

	// Whoever saw the former version changes nothing.
	for _, body := range []string{`{"rule":"example","limit":"1/s","version":0}`, `{"yaml":"version: 1\nrules: [{name: a, limit: 1/s}]\n","version":0}`} {
		if code, answer := put(s, body); code != http.StatusConflict || !strings.Contains(answer, fmt.Sprint(got.Version)) {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}

	// For a time.
	if code, body := put(s, fmt.Sprintf(`{"rule":"example","limit":"unlimited","for_seconds":300,"version":%d}`, got.Version)); code != http.StatusOK {
		t.Fatal(code, body)
	}
	if r := fetched[rulesReply](t, s, "/v1/rules").Rules[0]; r.Limit != "unlimited" || r.Until == nil || r.Then != "3/s burst 5" {
		t.Errorf("for a time: %+v", r)
	}
	changes := fetched[struct{ Changes []change }](t, s, "/v1/changes?n=2").Changes
	if len(changes) != 2 || changes[0].Rule != "example" || changes[0].By != "api from 192.0.2.1" || changes[0].Source != "example" ||
		!strings.Contains(changes[0].Before, "3/s") || !strings.Contains(changes[0].After, "unlimited until") || !strings.Contains(changes[1].Before, "10/s") {
		t.Errorf("the changes are %+v", changes)
	}
}

func TestBadRulesAreNotMade(t *testing.T) {
	s := newLiveServer(t, exampleText, nil)
	code, body := put(s, `{"yaml":"version: 1\nrules:\n  - name: a\n    limt: 1/s\n  - name: a\n    limit: 1/q\n","version":0}`)
	var answer struct {
		Error  string
		Errors []mistake
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusUnprocessableEntity || len(answer.Errors) < 3 || answer.Errors[1].Line != 4 || answer.Errors[1].Column != 5 || answer.Errors[1].Message == "" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := put(s, `{"rule":"example","limit":"fast","version":0}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, `"line":5,"column":12`) {
		t.Errorf("%d %s", code, body)
	}
	if got := fetched[rulesReply](t, s, "/v1/rules"); got.YAML != exampleText {
		t.Errorf("the rules are now %s", got.YAML)
	}
}

func TestChangesAreRefused(t *testing.T) {
	s := newLiveServer(t, exampleText, nil)
	for _, test := range []struct {
		body   string
		status int
		text   string
	}{
		{`{"rule":"example","limit":"1/s"}`, 400, `\"version\" is missing`},
		{`{"rule":"example","limit":"1/s","version":-1}`, 400, "-1"},
		{`{"version":0}`, 400, "whole file"},
		{`{"rule":"example","limit":"1/s","yaml":"x","version":0}`, 400, "the one or the other"},
		{`{"yaml":"x","for_seconds":3,"version":0}`, 400, "for_seconds"},
		{`{"rule":"example","version":0}`, 400, `\"limit\" is missing`},
		{`{"rule":"example","limit":"1/s","for_seconds":0,"version":0}`, 400, "for_seconds"},
		{`{"rule":"example","limit":"1/s until 3s","for_seconds":3,"version":0}`, 400, "until"},
		{`{"rule":"nobody","limit":"1/s","version":0}`, 404, "nobody"},
		{`{"yaml":"","version":0}`, 400, "empty"},
		{`{"yml":"","version":0}`, 400, `\"yml\" is unknown`},
		{`{"yaml":"` + strings.Repeat("a", maxRulesBody) + `","version":0}`, 413, "KiB"},
		{`{"yaml":"` + strings.Repeat("a", source.MaxText+1) + `","version":0}`, 400, "too long"},
		{``, 400, "empty"},
	} {
		if code, body := put(s, test.body); code != test.status || !strings.Contains(body, test.text) {
			t.Errorf("%.80s: %d %.200s, want %d %s", test.body, code, body, test.status, test.text)
		}
	}
	body := `{"rule":"example","limit":"1/s","version":0}`
	wantError(t, call(s, http.MethodPut, "/v1/rules", body), http.StatusUnauthorized, "needs the token")
	wantError(t, call(s, http.MethodPut, "/v1/rules", body, "Authorization", "Bearer x"), http.StatusUnauthorized, "not this server's")
	if w := call(s, http.MethodPut, "/v1/rules", body); w.Header().Get("WWW-Authenticate") == "" {
		t.Error("a 401 without WWW-Authenticate")
	}
	none := newLiveServer(t, exampleText, &Config{})
	wantError(t, call(none, http.MethodPut, "/v1/rules", body, "Authorization", "Bearer x"), http.StatusForbidden, "this server has none")
	if code, body := put(newTestServer(t, &Config{Token: testToken}), body); code != http.StatusConflict || !strings.Contains(body, "part of the program") {
		t.Errorf("rules of the program: %d %s", code, body)
	}
}

func TestRulesOfAFileAreReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(exampleText), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := live.NewFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, &Config{Token: testToken})
	follow(t, s, f)
	got := fetched[rulesReply](t, s, "/v1/rules")
	if got.Source != "file" || got.Editable || !strings.Contains(got.EditHint, path) || got.Version == 0 {
		t.Errorf("the rules are %+v", got)
	}
	if code, body := put(s, fmt.Sprintf(`{"rule":"example","limit":"1/s","version":%d}`, got.Version)); code != http.StatusConflict || !strings.Contains(body, path) {
		t.Errorf("%d %s", code, body)
	}
}

func TestRulesByThePage(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nrules:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  - {name: r%d, match: {path: /p/%d}, key: [user], limit: %d/s}\n", i, i, i%100+1)
	}
	s := newLiveServer(t, text.String(), nil)
	got := fetched[rulesReply](t, s, "/v1/rules?q=R999&offset=2&limit=3")
	if *got.Total != 11 || len(got.Rules) != 3 || got.Rules[0].Name != "r9991" {
		t.Errorf("of %d: %+v", *got.Total, got.Rules)
	}
	if got := fetched[rulesReply](t, s, "/v1/rules?q=%2Fp%2F77&limit=1"); *got.Total != 111 || got.Rules[0].Match != "{path: /p/77}" {
		t.Errorf("by what they match: %d %+v", *got.Total, got.Rules)
	}
	if got := fetched[rulesReply](t, s, "/v1/rules?offset=20000"); *got.Total != 10_000 || len(got.Rules) != 0 {
		t.Errorf("beyond the last: %d of %d", len(got.Rules), *got.Total)
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?offset=-1", "?page=2", "?q=a&q=b", "?q=%zz"} {
		wantError(t, call(s, http.MethodGet, "/v1/rules"+query, ""), http.StatusBadRequest, "")
	}
}

const keysText = `version: 1
rules:
  - name: example
    key: [key]
    limit: 10/s burst 20
  - name: pair
    match: {tenant: "*"}
    key: [tenant, user]
    limit: 10/s burst 20
    overrides:
      - match: {tenant: vip}
        limit: 100/s
  - {name: global, limit: 1000/s}
  - {name: closed, key: [closed], limit: 1/s, shadow: true}
`

func TestTheHottestKeys(t *testing.T) {
	s := newLiveServer(t, keysText, nil)
	for i := range 30 {
		post(s, "/v1/take", `{"rule":"example","key":"hot"}`)
		post(s, "/v1/take", fmt.Sprintf(`{"rule":"pair","key":["a/%d","b"]}`, i%3))
	}
	post(s, "/v1/take", `{"rule":"example","key":"cold"}`)
	post(s, "/v1/take", `{"rule":"global"}`)
	type hot struct {
		Keys   []hotKey
		Window float64 `json:"window_seconds"`
	}
	got := fetched[hot](t, s, "/v1/keys?rule=example")
	if len(got.Keys) != 2 || got.Keys[0].Key[0] != "hot" || got.Keys[0].Count < 29 || got.Window != 60 {
		t.Errorf("by traffic: %+v", got)
	}
	if got := fetched[hot](t, s, "/v1/keys?by=refusals"); len(got.Keys) != 1 || got.Keys[0].Rule != "example" || got.Keys[0].Count < 5 {
		t.Errorf("by refusals: %+v", got)
	}
	if got := fetched[hot](t, s, "/v1/keys?rule=pair&n=1"); len(got.Keys) != 1 || len(got.Keys[0].Key) != 2 || got.Keys[0].Key[1] != "b" {
		t.Errorf("of several parts: %+v", got)
	}
	if got := fetched[hot](t, s, "/v1/keys?rule=global"); len(got.Keys) != 1 || len(got.Keys[0].Key) != 0 {
		t.Errorf("of no part: %+v", got)
	}
	for query, status := range map[string]int{
		"?rule=nobody": 404, "?by=name": 400, "?n=0": 400, "?n=257": 400, "?rule=example&key=a&n=3": 400, "?key=a": 400,
		"?rule=example&key=a&key=b": 400, "?rule=nobody&key=a": 404, "?rule=global&key=a": 400, "?x=1": 400,
	} {
		wantError(t, call(s, http.MethodGet, "/v1/keys"+query, ""), status, "")
	}
}

func TestOneKey(t *testing.T) {
	s := newLiveServer(t, keysText, nil)
	post(s, "/v1/take", `{"rule":"example","key":"a","cost":20}`)
	type one struct {
		Rule     string
		Key      []string
		Limit    string
		Override *int
		Decision struct {
			Allowed   bool
			Remaining int64
		}
	}
	for range 2 { // looking charges nothing
		got := fetched[one](t, s, "/v1/keys?rule=example&key=b")
		if !got.Decision.Allowed || got.Decision.Remaining != 20 || got.Limit != "10/s burst 20" || got.Override != nil || got.Key[0] != "b" {
			t.Errorf("a new key: %+v", got)
		}
	}
	if got := fetched[one](t, s, "/v1/keys?rule=example&key=a"); got.Decision.Allowed {
		t.Errorf("a spent key: %+v", got)
	}
	if got := fetched[one](t, s, "/v1/keys?rule=pair&key=vip&key=u"); got.Override == nil || *got.Override != 0 || got.Limit != "100/s" {
		t.Errorf("by an override: %+v", got)
	}
	if got := fetched[one](t, s, "/v1/keys?rule=global&key="); len(got.Key) != 0 || got.Decision.Remaining != 1000 {
		t.Errorf("of no part: %+v", got)
	}
}

type tried struct {
	Decision struct {
		Allowed    bool
		Rule       string
		RetryAfter *float64 `json:"retry_after_seconds"`
	}
	Matched []struct {
		Rule, Limit string
		Override    *int
		Key         []string
		Shadow      bool
		Decision    struct{ Allowed bool }
	}
}

func TestTryChargesNothing(t *testing.T) {
	s := newLiveServer(t, keysText, nil)
	try := func(body string) tried {
		t.Helper()
		w := post(s, "/v1/try", body)
		var got tried
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s %v", w.Code, w.Body, err)
		}
		return got
	}
	for range 3 {
		got := try(`{"attributes":{"tenant":"vip","user":"u","closed":"x"},"cost":90}`)
		if !got.Decision.Allowed || len(got.Matched) != 3 || *got.Matched[0].Override != 0 || got.Matched[0].Limit != "100/s" || len(got.Matched[0].Key) != 2 {
			t.Errorf("within the limits: %+v", got)
		}
		if m := got.Matched[2]; m.Rule != "closed" || !m.Shadow || m.Decision.Allowed {
			t.Errorf("what would be refused in shadow: %+v", m)
		}
	}
	got := try(`{"attributes":{"key":"k"},"cost":21}`)
	if got.Decision.Allowed || got.Decision.Rule != "example" || got.Decision.RetryAfter != nil {
		t.Errorf("above the burst: %+v", got)
	}
	post(s, "/v1/take", `{"rule":"example","key":"k","cost":20}`)
	got = try(`{"attributes":{"key":"k"},"cost":10}`)
	if ra := got.Decision.RetryAfter; got.Decision.Allowed || ra == nil || *ra < .8 || *ra > 1 {
		t.Errorf("ten of an empty bucket pass after a second: %+v", got)
	}
	for body, text := range map[string]string{
		`{}`: "attributes", `{"attributes":{},"cost":-1}`: "refund", `{"attributes":{},"rule":"a"}`: "unknown", `[]`: "object",
	} {
		wantError(t, post(s, "/v1/try", body), http.StatusBadRequest, text)
	}
}

func TestTraffic(t *testing.T) {
	s := newLiveServer(t, keysText, nil)
	for range 21 {
		post(s, "/v1/take", `{"rule":"example","key":"a"}`)
	}
	post(s, "/v1/take", `{"rule":"closed","key":"a","cost":5}`)
	post(s, "/v1/peek", `{"rule":"example","key":"a"}`)
	d := tidegate.Decision{Allowed: true, Rule: "envoy"}
	s.Decided(&d)
	type traffic struct {
		At    float64
		Rules map[string]ruleCounts
		Total ruleCounts
	}
	got := fetched[traffic](t, s, "/v1/traffic")
	want := map[string]ruleCounts{"example": {20, 1, 0}, "closed": {0, 0, 1}, "envoy": {1, 0, 0}}
	if fmt.Sprint(got.Rules) != fmt.Sprint(want) || got.Total != (ruleCounts{22, 1, 0}) || got.At < 1e9 {
		t.Errorf("got %+v", got)
	}

	// A rule that is gone is forgotten; one that stays goes on.
	if code, body := put(s, `{"yaml":"`+strings.ReplaceAll(exampleText, "\n", `\n`)+`","version":0}`); code != http.StatusOK {
		t.Fatal(code, body)
	}
	if got := fetched[traffic](t, s, "/v1/traffic"); len(got.Rules) != 2 || got.Rules["example"] != (ruleCounts{20, 1, 0}) {
		t.Errorf("after a change: %+v", got)
	}
}

func TestTrafficOfManyOtherRulesIsBounded(t *testing.T) {
	tr := newTraffic()
	for i := range maxOthers + 100 {
		tr.other(fmt.Sprint(i), true)
	}
	if n := len(tr.counts()); n != maxOthers {
		t.Errorf("%d rules are counted", n)
	}
}

func TestState(t *testing.T) {
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	s := newServerOn(t, store, &Config{Token: testToken, StoreName: "redis://localhost", Version: "v1"})
	post(s, "/v1/take", `{"rule":"example","key":"a"}`)
	got := fetched[stateReply](t, s, "/v1/state")
	if got.State != "healthy" || got.Store != "redis://localhost" || got.Version != "v1" || !got.TokenSet || got.Replicas != nil ||
		got.Latency.P50 == nil || *got.Latency.P50 <= 0 || *got.Latency.P99 < *got.Latency.P50 || got.Editable || got.EditHint == "" {
		t.Errorf("got %+v", got)
	}
	faulty := newFaultyStore(t)
	s = newServerOn(t, faulty, nil)
	faulty.down.Store(true)
	post(s, "/v1/take", `{"rule":"example","key":"a"}`)
	if got := fetched[stateReply](t, s, "/v1/state"); got.State != "degraded" || got.Reason == "" {
		t.Errorf("a store that is down: %+v", got)
	}
}

func TestFewAtOnce(t *testing.T) {
	s := newTestServer(t, nil)
	s.large.Store(maxLarge)
	wantError(t, call(s, http.MethodGet, "/v1/rules", ""), http.StatusServiceUnavailable, "too many")
	if w := post(s, "/v1/take", `{"rule":"example","key":"a"}`); w.Code != http.StatusOK {
		t.Errorf("a take is answered %d", w.Code)
	}
	s.large.Store(0)
	fetched[rulesReply](t, s, "/v1/rules")
	if n := s.large.Load(); n != 0 {
		t.Errorf("%d are said to run", n)
	}
}
