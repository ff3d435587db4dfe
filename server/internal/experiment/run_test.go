package experiment

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/server/internal/redisserver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// small is a run that a busy machine can keep up with.
func small(t *testing.T, scenario Scenario, change func(*Config)) *Plan {
	t.Helper()
	c := newConfig(func(c *Config) {
		c.Limit = tidegate.Limit{Rate: 60, Per: time.Second, Burst: 20}
		c.Offered, c.Duration, c.Scenarios = 200, MinDuration, []Scenario{scenario}
		if change != nil {
			change(c)
		}
	})
	plans, err := c.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return &plans[0]
}

// nothingLeft fails the test if a run leaves a file.
func nothingLeft(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("a run left %v, %v", left, err)
		}
	})
}

// held fails the test unless the downstream saw what its buckets let pass, and no warming up. What a busy machine answers
// late may have been let through a while before.
func held(t *testing.T, tr *Trace, rate float64) {
	t.Helper()
	r := tr.Result()
	t.Logf("%+v", r)
	buckets := 60 / rate
	end := max(MinDuration, tr.arrivals[len(tr.arrivals)-1])
	most := int(buckets*(20+rate*end.Seconds())) + 3 // a replica that the store is too slow for once has a token of its own
	if r.Offered != 400 || r.Admitted < 120 || r.Admitted > most || r.Admitted != len(tr.arrivals) || r.Errors != 0 {
		t.Errorf("%+v: %d requests in %v, want from 120 to %d", r, r.Admitted, end, most)
	}
	if r.WaitP99Seconds <= 0 || r.WaitMaxSeconds < r.WaitP99Seconds || r.OutageMean != nil || r.PeakSecond < r.PeakSecondAfterStart {
		t.Errorf("%+v", r)
	}
}

func TestRunShared(t *testing.T) {
	redistest.Start(t) // which skips the test, or fails it, where there is no server
	nothingLeft(t)
	began := 0
	tr, err := small(t, Shared, nil).Run(t.Context(), func() { began++ })
	if err != nil {
		t.Fatal(err)
	}
	if began != 1 {
		t.Errorf("the clock started %d times", began)
	}
	held(t, tr, 60)
}

func TestRunLocal(t *testing.T) {
	tr, err := small(t, Local, nil).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	held(t, tr, 20)
}

// A store that somebody else runs keeps what it has, and gets nothing to keep.
func TestRunOnAnothersStore(t *testing.T) {
	srv := redistest.StartTCP(t)
	if _, err := srv.Do("SET", "mine", "kept"); err != nil {
		t.Fatal(err)
	}
	tr, err := small(t, Shared, func(c *Config) { c.Store = srv.URL() }).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Result().Admitted == 0 {
		t.Errorf("%+v", tr.Result())
	}
	keys, err := srv.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.([]any) {
		if name := k.(string); name == "mine" || strings.Contains(name, "%=") { // the table of the replicas
			continue
		}
		t.Errorf("it left %v", k)
	}
}

func TestReady(t *testing.T) {
	srv := redistest.StartTCP(t)
	ready := func(scenarios []Scenario, store string) error {
		plans, err := newConfig(func(c *Config) { c.Scenarios, c.Store = scenarios, store }).Plan()
		if err != nil {
			t.Fatal(err)
		}
		return Ready(t.Context(), plans)
	}
	here := []Scenario{Local, Shared}
	if err := errors.Join(ready(Scenarios, Auto), ready(here, srv.URL())); err != nil {
		t.Error(err)
	}
	srv.Kill()
	if err := ready(here, srv.URL()); err == nil || !strings.Contains(err.Error(), "no answer from the store: ") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := ready(Scenarios, Auto); !errors.Is(err, redisserver.ErrMissing) {
		t.Errorf("%v", err)
	}
	if err := ready(here[:1], Auto); err != nil {
		t.Errorf("what needs no store wants one: %v", err)
	}
}

// An end from outside ends a run at any time, and ends the server that it started, stopped or not.
func TestRunInterrupted(t *testing.T) {
	redistest.Start(t)
	nothingLeft(t)
	for _, after := range []time.Duration{0, time.Second, 4 * time.Second} { // before it, in it, while the store is stopped
		p := small(t, Outage, func(c *Config) { c.Duration, c.Fault = MinOutage, Stop })
		ctx, cancel := context.WithCancel(t.Context())
		begins := func() { time.AfterFunc(after, cancel) }
		if after == 0 {
			cancel()
		}
		if tr, err := p.Run(ctx, begins); tr != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after %v: %v, %v", after, tr, err)
		}
		cancel()
	}
}
