package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	servicepage "github.com/tidegate-go/tidegate/server/page"
)

// fakeAPI answers what the page asks for as the service would in states that are hard to bring about: ten thousand rules,
// names that are HTML, a store that is away.
type fakeAPI struct {
	mu      sync.Mutex
	rules   []map[string]any
	state   map[string]any
	changes []map[string]any
	started time.Time
}

func fakeRule(name, limit, match string, key ...string) map[string]any {
	return map[string]any{
		"name": name, "limit": limit, "until": nil, "match": match, "key": key, "shadow": false, "enforce": 1,
		"on_store_failure": "local", "overrides": 0, "text": "- name: " + name + "\n  limit: " + limit + "\n",
	}
}

// serve serves the page and the API.
func (f *fakeAPI) serve(t *testing.T) string {
	t.Helper()
	f.started = time.Now()
	if f.state == nil {
		f.state = map[string]any{}
	}
	for name, v := range map[string]any{
		"state": "healthy", "since": f.started.Format(time.RFC3339), "reason": "", "replicas": 3, "store": "redis://127.0.0.1:6379",
		"version": "test", "uptime_seconds": 93784, "store_latency_seconds": map[string]any{"p50": 0.00042, "p99": 0.0021},
		"rules_source": "store", "editable": true, "edit_hint": "", "token_set": true, "shares": map[string]any{}, "breakers": []any{},
	} {
		if _, ok := f.state[name]; !ok {
			f.state[name] = v
		}
	}
	h, err := servicepage.Handler()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", h)
	answer := func(pattern string, fn func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			text, err := json.Marshal(fn(r))
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // a page that is closed meanwhile does not read it
		})
	}
	answer("GET /v1/state", func(*http.Request) any { return f.state })
	answer("GET /v1/rules", f.list)
	answer("GET /v1/traffic", func(*http.Request) any { return f.traffic() })
	answer("GET /v1/changes", func(*http.Request) any { return map[string]any{"changes": f.changes} })
	answer("GET /v1/keys", f.keys)
	answer("POST /v1/try", func(*http.Request) any {
		d := fakeDecision(fmt.Sprint(f.rules[0]["name"]), false)
		return map[string]any{"decision": d, "matched": []any{map[string]any{
			"rule": f.rules[0]["name"], "limit": f.rules[0]["limit"], "override": 0, "key": []string{hostile}, "shadow": false, "decision": d,
		}}}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func fakeDecision(rule string, allowed bool) map[string]any {
	return map[string]any{
		"allowed": allowed, "limit": 20, "remaining": 0, "retry_after_seconds": 3.2, "reset_after_seconds": 9, "delay_seconds": 0,
		"rule": rule, "source": "store",
	}
}

func (f *fakeAPI) list(r *http.Request) any {
	q := strings.ToLower(r.FormValue("q"))
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	found := []map[string]any{}
	for _, rule := range f.rules {
		if strings.Contains(strings.ToLower(fmt.Sprint(rule)), q) {
			found = append(found, rule)
		}
	}
	total := len(found)
	found = found[min(offset, total):min(offset+limit, total)]
	return map[string]any{
		"version": 7, "source": f.state["rules_source"], "editable": f.state["editable"], "edit_hint": f.state["edit_hint"],
		"total": total, "rules": found,
	}
}

// traffic grows with time, by a rate that differs from rule to rule.
func (f *fakeAPI) traffic() any {
	s := time.Since(f.started).Seconds()
	rules := map[string]any{}
	allowed, refused := 0, 0
	for i, rule := range f.rules {
		a, n := int(s*float64(100+i%40)), int(s*float64(i%7))
		rules[fmt.Sprint(rule["name"])] = map[string]any{"allowed": a, "refused": n, "shadow_refused": 0}
		allowed, refused = allowed+a, refused+n
	}
	return map[string]any{
		"at": float64(time.Now().UnixMicro()) / 1e6, "rules": rules, "total": map[string]any{"allowed": allowed, "refused": refused},
	}
}

func (f *fakeAPI) keys(r *http.Request) any {
	if key := r.URL.Query()["key"]; len(key) > 0 {
		return map[string]any{"rule": r.FormValue("rule"), "key": key, "limit": "10/s", "override": nil, "decision": fakeDecision(r.FormValue("rule"), false)}
	}
	return map[string]any{"window_seconds": 60, "keys": []any{
		map[string]any{"rule": r.FormValue("rule"), "key": []string{hostile}, "count": 4123, "error": 0},
		map[string]any{"rule": r.FormValue("rule"), "key": []string{"user:2"}, "count": 1200, "error": 12},
	}}
}
