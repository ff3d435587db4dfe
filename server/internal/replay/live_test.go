package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/server"
	"github.com/tidegate-go/tidegate/server/internal/accesslog"
)

// everyKind are rules of every algorithm that a log can be replayed against, and of every feature that changes a decision.
const everyKind = `
- {name: all, limit: 120/s burst 300}
- name: user
  match: {path: '/api/**', method: [GET, POST]}
  key: [user]
  limit: 10/s burst 15
  overrides:
    - {match: {user: 'vip-*'}, limit: 40/s burst 60}
    - {match: {user: internal}, limit: unlimited}
    - {match: {user: banned}, limit: none}
- {name: leaky, match: {path: '/leaky/*'}, key: [ip], limit: 8/s leaky-bucket queue 3}
- {name: fixed, match: {path: '/fixed'}, key: [ip, user], limit: 3/2s fixed-window}
- {name: day, key: [user], match: {user: u1}, limit: 400/day tz Asia/Shanghai fixed-window}
- {name: slices, match: {path: '/slices'}, key: [user], limit: 12/3s sliding-window slices 4}
- {name: exact, match: {path: '/exact'}, key: [user], limit: 7/2s sliding-log}
- {name: tokens, match: {path: '/model'}, key: [user], limit: 200/s burst 400, cost: tokens}
- {name: quiet, key: [item], match: {item: '*'}, limit: 5/s, shadow: true}
- {name: part, key: [user], limit: 20/s, enforce: 40%}
- {name: strict, match: {path: '/strict'}, key: [tenant], limit: 5/s, missing: deny}
- {name: ends, match: {path: '/ends'}, limit: 'unlimited until 2026-03-01T10:00:20Z', then: 8/s}
- {name: warm, match: {path: '/warm'}, limit: 30/s burst 30 warmup 10s}
`

// asked is a request, as a line of a log and as its attributes.
type asked struct {
	at         time.Time
	attributes map[string]string
}

func (a *asked) line() []byte {
	m := map[string]any{"ts": json.Number(fmt.Sprintf("%d.%06d", a.at.Unix(), a.at.Nanosecond()/1000))}
	for k, v := range a.attributes {
		switch k {
		case "ip":
			m["remote_addr"] = v
		default:
			m[k] = v
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // of strings
	}
	return append(b, '\n')
}

func madeUp(n int, seed uint64) []asked {
	r := rand.New(rand.NewPCG(seed, 0))
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	paths := []string{"/api/a", "/api/b/c", "/leaky/x", "/fixed", "/slices", "/exact", "/model", "/strict", "/ends", "/warm"}
	users := []string{"u1", "u2", "u3", "vip-1", "internal", "banned", ""}
	all := make([]asked, n)
	for i := range all {
		gap := r.ExpFloat64() * float64(6*time.Millisecond)
		if r.IntN(400) == 0 {
			gap = float64(3 * time.Second)
		}
		at = at.Add(time.Duration(gap).Truncate(time.Microsecond))
		a := map[string]string{
			"path": paths[r.IntN(len(paths))], "method": []string{"GET", "POST", "DELETE"}[r.IntN(3)],
			"ip": fmt.Sprintf("192.0.2.%d", r.IntN(4)),
		}
		if u := users[r.IntN(len(users))]; u != "" {
			a["user"] = u
		}
		switch r.IntN(4) {
		case 0:
			a["item"] = fmt.Sprint(r.IntN(3))
		case 1:
			a["tenant"] = fmt.Sprint(r.IntN(3))
		}
		if a["path"] == "/model" && r.IntN(10) > 0 {
			a["tokens"] = []string{"1", "50", "90", "500", "x"}[r.IntN(5)]
		}
		all[i] = asked{at, a}
	}
	return all
}

// A replay decides each request as the live service does when it is asked at that moment: the same object, to the byte.
func TestDecisionsAreThoseOfTheService(t *testing.T) {
	requests := madeUp(6000, 7)
	var text bytes.Buffer
	for i := range requests {
		text.Write(requests[i].line())
	}
	var replayed [][]byte
	report, err := Run(context.Background(), open(t, text.String(), accesslog.Options{}), &Config{
		Rules: parse(t, everyKind),
		Decided: func(d *Decided) {
			b, err := json.Marshal(d.Decision)
			if err != nil {
				t.Fatal(err)
			}
			replayed = append(replayed, b)
		},
	})
	if err != nil || len(replayed) != len(requests) {
		t.Fatalf("%d decisions of %d, %v", len(replayed), len(requests), err)
	}

	var now atomic.Pointer[time.Time]
	now.Store(&requests[0].at)
	clock := func() time.Time { return *now.Load() }
	store := memstore.New(&memstore.Config{Now: clock})
	defer store.Close()
	s, err := server.New(store, &server.Config{Set: parse(t, everyKind), Engine: &rules.Config{Now: clock}})
	if err != nil {
		t.Fatal(err)
	}
	live := httptest.NewServer(s.Handler())
	defer live.Close()
	defer live.Client().CloseIdleConnections()
	for i := range requests {
		now.Store(&requests[i].at)
		if got := ask(t, live, requests[i].attributes); !bytes.Equal(got, replayed[i]) {
			t.Fatalf("request %d, %v:\nlive   %s\nreplay %s", i, requests[i], got, replayed[i])
		}
	}
	for _, r := range report.Rules {
		if r.Name != "all" && (r.Refused == 0 || r.Admitted == 0) {
			t.Errorf("%s refused %d of %d: too few to tell", r.Name, r.Refused, r.Offered)
		}
	}
}

func ask(t *testing.T, live *httptest.Server, attributes map[string]string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"attributes": attributes})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := live.Client().Post(live.URL+"/v1/take", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		t.Fatal(resp.Status, string(got), err)
	}
	return bytes.TrimSpace(got)
}
