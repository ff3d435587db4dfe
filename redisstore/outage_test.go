package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/resilience"
)

// deadline is that of a call of the wrapper, and of the store in it.
const deadline = 50 * time.Millisecond

// guarded is a store of the tests behind a wrapper.
type guarded struct {
	*resilience.Store
	t   *testing.T
	log *strings.Builder
	mu  sync.Mutex
	own map[resilience.ErrorKind]int
	// clientLines is how many lines go-redis had logged before.
	clientLines int64
}

func guard(t *testing.T, address string, cfg *Config) *guarded {
	t.Helper()
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	c.Timeout = deadline
	shared, err := Open(address, &c)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{t: t, log: &strings.Builder{}, own: map[resilience.ErrorKind]int{}, clientLines: clientLines.Load()}
	g.Store, err = resilience.New(shared, &resilience.Config{
		Replicas: 1,
		Timeout:  deadline,
		Logger:   slog.New(slog.NewTextHandler(g, nil)),
		Hooks: resilience.Hooks{Call: func(_ string, _ time.Duration, k resilience.ErrorKind) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.own[k]++
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Write keeps what is logged.
func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.Write(b)
}

func (g *guarded) logged() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

// fewLines fails the test if it and go-redis logged as many as twenty lines.
func (g *guarded) fewLines() {
	g.t.Helper()
	own, clients := strings.Count(g.logged(), "\n"), clientLines.Load()-g.clientLines
	if g.t.Logf("%d lines of its own, %d of go-redis", own, clients); own+int(clients) >= 20 {
		g.t.Errorf("%d lines, and %d of go-redis:\n%s", own, clients, g.logged())
	}
	if strings.Contains(g.logged(), password) {
		g.t.Error("the password is logged")
	}
}

func (g *guarded) kinds() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprint(g.own)
}

// took is how long a take took, and who decided.
type took struct {
	d    time.Duration
	from tidegate.Source
	ok   bool
}

// ask takes for a while, by a few callers, and returns how long each take took.
func (g *guarded) ask(c tidegate.Charge, callers int, while time.Duration) (all []took) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(while)
	for i := range callers {
		wg.Go(func() {
			var mine []took
			c := c
			c.Key = fmt.Sprint(c.Key, i%4)
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for time.Now().Before(end) {
				start := time.Now()
				ds, err := g.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err != nil {
					g.t.Errorf("take: %v", err)
					return
				}
				mine = append(mine, took{time.Since(start), ds[0].Source, ds[0].Allowed})
				<-tick.C
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	return all
}

func slowest(all []took) (d time.Duration) {
	for _, x := range all {
		d = max(d, x.d)
	}
	return d
}

func percentile99(all []took) time.Duration {
	ds := make([]time.Duration, len(all))
	for i, x := range all {
		ds[i] = x.d
	}
	slices.Sort(ds)
	return ds[len(ds)*99/100]
}

func (g *guarded) source(c tidegate.Charge) tidegate.Source {
	g.t.Helper()
	return mustTake(g.t, g, c)[0].Source
}

// goesAway asks from the beginning of a fault until the store counts as away, and for a while longer. As it begins nobody waits
// longer than the deadline and a little; later all are decided by the fallback, at once.
func (g *guarded) goesAway(c tidegate.Charge, kind resilience.ErrorKind) {
	g.t.Helper()
	var first []took
	for range 8 {
		first = append(first, g.ask(c, 8, 400*time.Millisecond)...)
		if g.Status().State == resilience.Fallback {
			break
		}
	}
	if d := slowest(first); d > 3*deadline && !raceDetector {
		g.t.Errorf("one waited %v as the outage began", d)
	}
	if st := g.Status(); st.State != resilience.Fallback || st.Err == nil {
		g.t.Fatalf("%+v after errors %s", st, g.kinds())
	}
	open := g.ask(c, 8, 700*time.Millisecond)
	for _, x := range open {
		if x.from != tidegate.SourceFallback || !x.ok {
			g.t.Fatalf("%+v", x)
		}
	}
	if d := percentile99(open); d > time.Millisecond && !raceDetector {
		g.t.Errorf("while it is away, of a hundred one waits %v", d)
	}
	if !strings.Contains(g.kinds(), string(kind)+":") {
		g.t.Errorf("the errors are %s, not of the kind %q: %v", g.kinds(), kind, g.Status().Err)
	}
}

// returns waits until the store decides again, and fails the test when that takes longer than a second and some room.
func (g *guarded) returns(c tidegate.Charge) {
	g.t.Helper()
	start := time.Now()
	eventually(g.t, 10*time.Second, "the store decides again", func() error {
		if from := g.source(c); from != tidegate.SourceStore {
			return fmt.Errorf("the source is %v, %+v", from, g.Status())
		}
		return nil
	})
	took := time.Since(start)
	if g.t.Logf("back after %v", took); took > time.Second+room() {
		g.t.Errorf("it took %v after the end of the fault", took)
	}
}

// hasBeaten waits until the server has the table of the replicas, and told of it.
func (g *guarded) hasBeaten() {
	g.t.Helper()
	eventually(g.t, 5*time.Second, "a heartbeat is answered", func() error {
		if st := g.Status(); st.Replicas == 0 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
}

// wantRemaining returns an error unless so much remains of a bucket, by the store.
func wantRemaining(g *guarded, c tidegate.Charge, want int64) error {
	ds, err := g.Take(context.Background(), []tidegate.Charge{peekOf(c)}, nil)
	if err != nil {
		return err
	}
	if ds[0].Source != tidegate.SourceStore || ds[0].Remaining != want {
		return fmt.Errorf("%+v, %+v", ds[0], g.Status())
	}
	return nil
}
