//go:build !race

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/resilience"
)

// answered is a take as its client saw it.
type answered struct {
	at, took time.Duration // from the start; until the answer
	status   int
	source   string
	err      error
}

// lockedLog is a log that is written while it is read.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// A Redis that is killed under a thousand takes a second, and started again: no answer is late, all say where they come
// from, /readyz tells, and nothing is logged for a request.
//
// What a busy machine adds to all answers is seen by requests that ask no store; one that is too busy is given time, and then
// allowed what it adds.
func TestKilledRedisUnderLoad(t *testing.T) {
	const tries, calm = 4, 30 * time.Millisecond
	for n := 1; ; n++ {
		k := killUnderLoad(t)
		if k.lag <= calm || n == tries {
			k.judge(t)
			return
		}
		t.Logf("the machine was busy: answers that need no store took up to %v", k.lag)
	}
}

// killed is what an experiment saw.
type killed struct {
	takes []answered
	lag   time.Duration // the longest that an answer took that needs no store
	ready [3]string     // /readyz before the kill, while the server is away, and when it is back
	log   []string
}

// When the server is killed and started again, and when the load ends.
const killAt, backAt, loadEnds = 1500 * time.Millisecond, 3 * time.Second, 5 * time.Second

func (k *killed) judge(t *testing.T) {
	t.Helper()
	for i, want := range [3]string{
		`200 {"ready":true}`, `200 {"ready":true,"state":"degraded","reason":"the store is away: `, `200 {"ready":true}`,
	} {
		if !strings.HasPrefix(k.ready[i], want) && k.lag <= 50*time.Millisecond {
			t.Errorf("/readyz says %q, want %q", k.ready[i], want)
		}
	}
	var slowest time.Duration
	sources := map[string]int{}
	for _, a := range k.takes {
		slowest = max(slowest, a.took)
		want := ""
		switch {
		case k.lag > 50*time.Millisecond: // then the store may be too late for its deadline at any time
		case a.at < killAt-200*time.Millisecond, a.at > backAt+1200*time.Millisecond:
			want = "store"
		case a.at > killAt+300*time.Millisecond && a.at < backAt-200*time.Millisecond:
			want = "fallback"
		}
		if source := strings.Replace(a.source, "denied-cache", "store", 1); want != "" && source != want {
			t.Errorf("at %v the source is %q, want %q", a.at, a.source, want)
		}
		if a.err != nil || a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
			t.Errorf("at %v: status %d, %v", a.at, a.status, a.err)
		}
		sources[a.source]++
	}
	t.Logf("%v, the slowest after %v, without a store %v", sources, slowest, k.lag)
	if slowest > 150*time.Millisecond+2*k.lag {
		t.Errorf("an answer took %v", slowest)
	}
	if len(k.log) > 4 && k.lag <= 50*time.Millisecond { // away and back, and room for once more
		t.Errorf("logged %d lines: %q", len(k.log), k.log)
	}
}

func killUnderLoad(t *testing.T) (k killed) {
	t.Helper()
	srv := redistest.StartTCP(t)
	shared, err := redisstore.Open(srv.URL(), &redisstore.Config{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var log lockedLog
	logger := slog.New(slog.NewTextHandler(&log, nil))
	m := NewStoreMetrics()
	store, err := resilience.New(shared, &resilience.Config{Logger: logger, Hooks: m.Hooks()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rule := Rule{Name: "api", Limit: tidegate.Limit{Rate: 500, Per: time.Second, Burst: 100}, Key: []string{"key"}}
	sv := serve(t, newServerOn(t, store, &Config{Rules: []Rule{rule}, StoreMetrics: m, Logger: logger}))
	c := client(t)
	c.Transport.(*http.Transport).MaxIdleConnsPerHost = 200

	start := time.Now()
	var mu sync.Mutex
	var load sync.WaitGroup
	// Each on its own time, whatever became of those before.
	send := func(every time.Duration, one func(at time.Duration) func(took time.Duration)) {
		load.Go(func() {
			for at := time.Duration(0); at < loadEnds; at += every {
				due := start.Add(at)
				<-time.After(time.Until(due))
				load.Go(func() {
					note := one(at)
					took := time.Since(due)
					mu.Lock()
					defer mu.Unlock()
					note(took)
				})
			}
		})
	}
	send(time.Millisecond, func(at time.Duration) func(time.Duration) {
		a := answered{at: at}
		a.status, a.source, a.err = takeFrom(c, sv.url, fmt.Sprintf(`{"rule":"api","key":"k%d"}`, at/time.Millisecond%10))
		return func(took time.Duration) {
			a.took = took
			k.takes = append(k.takes, a)
		}
	})
	send(5*time.Millisecond, func(time.Duration) func(time.Duration) {
		_, _ = get(c, sv.url+"/healthz")
		return func(took time.Duration) { k.lag = max(k.lag, took) }
	})
	ready := func(i int) {
		var err error
		if k.ready[i], err = get(c, sv.url+"/readyz"); err != nil {
			t.Error(err)
		}
	}
	<-time.After(time.Until(start.Add(killAt)))
	ready(0)
	srv.Kill()
	<-time.After(time.Until(start.Add(killAt + 500*time.Millisecond)))
	ready(1)
	<-time.After(time.Until(start.Add(backAt)))
	srv.Restart()
	load.Wait()
	ready(2)
	sv.end()
	if err := sv.wait(); err != nil {
		t.Error(err)
	}
	for _, line := range log.lines() {
		if !strings.Contains(line, "shutting down") {
			k.log = append(k.log, line)
		}
	}
	return k
}

func takeFrom(c *http.Client, url, body string) (status int, source string, err error) {
	resp, err := c.Post(url+"/v1/take", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	var d struct {
		Source string `json:"source"`
	}
	err = json.Unmarshal(b, &d)
	return resp.StatusCode, d.Source, err
}

func get(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, b), err
}
