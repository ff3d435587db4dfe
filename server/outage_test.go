package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/resilience"
)

// tableStore is a shared store in memory, with a table of one replica, that is away on demand.
type tableStore struct {
	faultyStore
	beats atomic.Int64
}

func (s *tableStore) Beat(_ context.Context, b tidegate.Beat) (tidegate.Table, error) {
	if err := s.err("beat"); err != nil {
		return tidegate.Table{}, err
	}
	n := s.beats.Add(1)
	return tidegate.Table{
		Now: time.Now().UnixMicro(), Marker: "marker", Counted: true, Replicas: 1, Reported: 1,
		Second: n, Present: n > 1, Beaten: 1, Own: b.Admitted, Total: b.Admitted,
	}, nil
}

func guardedServer(t *testing.T, log *bytes.Buffer, policy tidegate.FailurePolicy) (*Server, *tableStore) {
	t.Helper()
	shared := &tableStore{faultyStore: faultyStore{Store: memstore.New(nil)}}
	m := NewStoreMetrics()
	logger := slog.New(slog.NewTextHandler(log, nil))
	store, err := resilience.New(shared, &resilience.Config{Logger: logger, Hooks: m.Hooks()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	rule := ExampleRule()
	rule.OnStoreFailure = policy
	return newServerOn(t, store, &Config{Rules: []Rule{rule}, Token: testToken, StoreMetrics: m, Logger: logger}), shared
}

// An outage: takes go on and say where they come from, /readyz and /metrics tell, and the log has a line for each change.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, shared := guardedServer(t, &log, tidegate.FailurePolicy{})
		take := func(source string) {
			t.Helper()
			w := post(s, "/v1/take", `{"rule":"example","key":"k"}`)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"source":"`+source+`"`) {
				t.Errorf("got %d %s, want source %s", w.Code, w.Body, source)
			}
			<-time.After(200 * time.Millisecond) // virtual
		}
		for range 15 {
			take("store")
		}
		wantReply(t, call(s, http.MethodGet, "/readyz", ""), http.StatusOK, `{"ready":true}`)
		shared.down.Store(true)
		for range 50 {
			take("fallback")
		}
		wantReply(t, call(s, http.MethodGet, "/readyz", ""), http.StatusOK,
			`{"ready":true,"state":"degraded","reason":"the store is away: dial tcp 127.0.0.1:1: connection refused"}`)
		wantError(t, withToken(s, "/v1/reset", `{"rule":"example","key":"k"}`), http.StatusServiceUnavailable, "connection refused")
		wantMetrics(t, s,
			`tidegate_store_state{state="fallback"} 1`, `tidegate_store_state{state="store"} 0`, `tidegate_store_breaker_open 1`,
			`tidegate_store_state_changes_total{state="fallback"} 1`, `tidegate_store_errors_total{kind="other"} `,
			`tidegate_fallback_decisions_total{outcome="allowed",rule="example"} 50`,
			`tidegate_decisions_total{outcome="allowed",rule="example",source="fallback"} 50`,
			`tidegate_fallback_share{rule="example"} 1`, `tidegate_fallback_debts 1`, `tidegate_store_replicas 1`, `tidegate_fallback_seconds_total 9.`)
		wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k","cost":15}`), http.StatusOK) // which the store will be charged
		shared.down.Store(false)
		<-time.After(time.Second)
		for range 10 {
			take("store")
		}
		wantReply(t, call(s, http.MethodGet, "/readyz", ""), http.StatusOK, `{"ready":true}`)
		wantMetrics(t, s, `tidegate_store_state{state="store"} 1`, `tidegate_store_breaker_open 0`, `tidegate_fallback_debts 0`,
			`tidegate_fallback_repaid_tokens_total{rule="example"} 1`, `tidegate_fallback_seconds_total 9.`)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "the store is away") || !strings.Contains(lines[1], "the store decides again") {
			t.Errorf("logged %q", lines)
		}
	})
}

// A refusal by policy is no limit that is reached: 503, with the decision that says so.
func TestPolicyDenyIs503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shared := guardedServer(t, &bytes.Buffer{}, tidegate.FailurePolicy{Action: tidegate.FailDeny})
		wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k","cost":20}`), http.StatusOK)
		wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k","cost":20}`), http.StatusTooManyRequests)
		shared.down.Store(true)
		for path, body := range map[string]string{
			"/v1/take": `{"rule":"example","key":"k"}`,
			"/v1/peek": `{"attributes":{"key":"k"}}`,
		} {
			w := post(s, path, body)
			wantReply(t, w, http.StatusServiceUnavailable, `{"allowed":false,"limit":0,"remaining":0,"retry_after_seconds":1,`+
				`"reset_after_seconds":0,"delay_seconds":0,"rule":"example","source":"fallback"}`)
			if got := w.Header().Get("Retry-After"); got != "1" {
				t.Errorf("%s: Retry-After is %q", path, got)
			}
		}
	})
}

// Policy allow says in the source that nothing was limited.
func TestPolicyAllowSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shared := guardedServer(t, &bytes.Buffer{}, tidegate.FailurePolicy{Action: tidegate.FailAllow})
		shared.down.Store(true)
		for range 100 {
			w := post(s, "/v1/take", `{"rule":"example","key":"k"}`)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"source":"fallback"`) {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
		}
	})
}

// A counter of time never falls, whatever comes first: the change or the hook that tells of it.
func TestFallbackSecondsNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewStoreMetrics()
		away := resilience.Status{State: resilience.Fallback, Since: time.Now()}
		<-time.After(3 * time.Second)
		if got := m.seconds(away); got != 3 {
			t.Errorf("%v in the third second", got)
		}
		if got := m.seconds(resilience.Status{}); got != 3 {
			t.Errorf("%v before the hook was called", got)
		}
		m.changed(resilience.StateChange{From: resilience.Fallback, To: resilience.Returning, Lasted: 3 * time.Second, Err: errors.New("gone")})
		if got := m.seconds(resilience.Status{}); got != 3 {
			t.Errorf("%v after it", got)
		}
	})
}

func wantMetrics(t *testing.T, s *Server, lines ...string) {
	t.Helper()
	text := call(s, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "tidegate_fallback") || strings.Contains(line, "tidegate_store") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
