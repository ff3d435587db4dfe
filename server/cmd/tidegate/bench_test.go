package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
)

// Keys are asked for equally often, by each caller, whatever the numbers of both.
func TestWalkIsEven(t *testing.T) {
	for _, keys := range []int{1, 2, 3, 10, 64, 1000, 1024, 4096} {
		for _, callers := range []int{1, 2, 64, 256} {
			seen := make([]int, keys)
			for c := range callers {
				n := 0
				for key := range walk(c, callers, keys) {
					if n == 3*keys {
						break
					}
					seen[key]++
					n++
				}
			}
			if want := 3 * callers; slices.Min(seen) != want || slices.Max(seen) != want {
				t.Errorf("%d callers over %d keys: between %d and %d takes of a key, want %d", callers, keys, slices.Min(seen), slices.Max(seen), want)
			}
		}
	}
}

// timedStore takes its time for every call.
type timedStore struct {
	tidegate.Store
	take time.Duration
}

func (s timedStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	time.Sleep(s.take)
	return s.Store.Take(ctx, charges, dst)
}

// A bucket of the default limit gets tokens back all the time, and is asked for less often than that: what was charged
// can be told all the same, to the token.
func TestBenchRereadsWhatRefillsMeanwhile(t *testing.T) {
	for _, c := range []struct {
		keys, callers int
		take          time.Duration
	}{
		{1, 1, time.Millisecond},
		{1, 50, 20 * time.Millisecond},
		{1000, 1, 10 * time.Millisecond}, // each once in ten seconds
		{1000, 3, 150 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(nil)
			defer store.Close()
			limit, err := tidegate.ParseLimit(benchLimit)
			if err != nil {
				t.Fatal(err)
			}
			const duration = 20 * time.Second
			r := newBenchRun(timedStore{store, c.take}, &limit, "run", c.keys, c.callers)
			r.prefill = int64(duration/time.Second) + 60
			if err := r.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.drive(t.Context(), duration)
			charged, why := r.reread()
			want := int64(duration/c.take) * int64(c.callers)
			if charged == nil || *charged != r.total.allowed || r.elapsed() < duration || r.total.allowed < want || r.total.allowed > want+int64(c.callers) {
				t.Errorf("%+v: %d allowed in %v, charged %s", c, r.total.allowed, r.elapsed(), chargedText(charged, why))
			}
			if left, err := r.reset(); left != 0 || err != nil || store.Stats().Keys != 0 {
				t.Errorf("%+v: %d buckets are left, %v", c, store.Stats().Keys, err)
			}
		})
	}
}

// What is answered too slowly to be told to the token is not told.
func TestBenchDoesNotGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		limit, _ := tidegate.ParseLimit(benchLimit)
		r := newBenchRun(timedStore{store, 600 * time.Millisecond}, &limit, "run", 1, 1)
		r.prefill = 70
		if err := r.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.drive(t.Context(), 10*time.Second)
		if charged, why := r.reread(); charged != nil || why != errUnclear.Error() {
			t.Errorf("charged %s, want %q", chargedText(charged, why), errUnclear)
		}
	})
}

// benching is a bench store that runs in this process.
type benching struct {
	stdout, stderr bytes.Buffer
	code           chan int
}

func startBench(args ...string) *benching {
	b := &benching{code: make(chan int, 1)}
	go func() { b.code <- run(append([]string{"bench", "store", "--json"}, args...), &b.stdout, &b.stderr) }()
	return b
}

func (b *benching) end(t *testing.T, code int) (r benchResult) {
	t.Helper()
	select {
	case got := <-b.code:
		if got != code {
			t.Fatalf("exit code %d, want %d\n%s%s", got, code, &b.stdout, &b.stderr)
		}
	case <-time.After(patience):
		t.Fatal("bench does not end")
	}
	if err := json.Unmarshal(b.stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, &b.stdout)
	}
	return r
}

// underWay waits until takes of a run have reached the server.
func underWay(t *testing.T, srv *redistest.Server) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		info, err := srv.Do("INFO", "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		var calls int
		if _, rest, ok := strings.Cut(fmt.Sprint(info), "cmdstat_evalsha:calls="); ok {
			_, _ = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &calls)
		}
		if calls > 100 {
			return
		}
	}
	t.Fatal("no takes reach the server")
}

// A server that goes away in the middle costs errors, and the run still ends in time.
func TestBenchOutlivesRedis(t *testing.T) {
	srv := redistest.StartTCP(t)
	start := time.Now()
	b := startBench("--store", srv.URL(), "--keys", "1", "--callers", "256", "--duration", "2s")
	underWay(t, srv)
	srv.Kill()
	r := b.end(t, exitAllowed)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("a run of 2s took %v", took)
	}
	if r.Errors < 256 || r.Errors > 256*300 || r.Allowed == 0 || r.Charged != nil || r.RedisCPUSeconds != nil || r.Takes != r.Allowed+r.Errors {
		t.Errorf("%s", &b.stdout)
	}
	for _, want := range []string{"takes failed: no answer from " + srv.URL() + ": ", "1 of the buckets could not be deleted: no answer from "} {
		if !strings.Contains(b.stderr.String(), want) {
			t.Errorf("stderr does not say %q:\n%s", want, &b.stderr)
		}
	}
	if lines := strings.Count(b.stderr.String(), "\n"); lines > maxCauses+1 {
		t.Errorf("%d lines on stderr:\n%s", lines, &b.stderr)
	}
}

// A store that lost what it was charged is found out.
func TestBenchFindsALoss(t *testing.T) {
	srv := redistest.StartTCP(t)
	b := startBench("--store", srv.URL(), "--limit", "1000000000/year", "--keys", "1", "--callers", "4", "--duration", "1s")
	underWay(t, srv)
	if _, err := srv.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	r := b.end(t, exitDenied)
	if r.Charged == nil || *r.Charged >= r.Allowed || r.Errors != 0 {
		t.Errorf("%s", &b.stdout)
	}
	if !strings.Contains(b.stderr.String(), "it lost some, or counts wrongly\n") || strings.Count(b.stderr.String(), "\n") != 1 {
		t.Errorf("stderr: %s", &b.stderr)
	}
}

// A run leaves nothing behind.
func TestBenchCleansUp(t *testing.T) {
	srv := redistest.StartTCP(t, "--requirepass", "s3cret")
	r := startBench("--store", srv.URL(), "--keys", "500", "--callers", "8", "--duration", "100ms").end(t, exitAllowed)
	if n, err := srv.Do("DBSIZE"); err != nil || n != int64(0) {
		t.Errorf("%v keys are left, %v", n, err)
	}
	if strings.Contains(r.Store, "s3cret") || r.Charged == nil || *r.Charged != r.Allowed || r.RedisCPUSeconds == nil {
		t.Errorf("%+v", r)
	}
}

// In a cluster the nodes' expense is added up.
func TestBenchCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	r := startBench("--store", c.URL(), "--keys", "100", "--callers", "16", "--duration", "300ms").end(t, exitAllowed)
	if r.Charged == nil || *r.Charged != r.Allowed || r.Allowed == 0 || r.RedisCPUSeconds == nil || *r.RedisCPUSeconds <= 0 {
		t.Errorf("%+v", r)
	}
	for _, node := range c.Nodes {
		if n, err := node.Do("DBSIZE"); err != nil || n != int64(0) {
			t.Errorf("%v keys are left on %s, %v", n, node.Addr, err)
		}
	}
}

// The end of the context, which Ctrl-C brings about, ends the run with what was measured so far.
func TestBenchInterrupted(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	limit, _ := tidegate.ParseLimit(benchLimit)
	r := newBenchRun(store, &limit, "run", 10, 4)
	r.prefill = 60
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for r.decided() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	f := &benchFlags{json: true, duration: time.Hour}
	cmd := newBenchStore()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	if err := f.measure(ctx, cmd, r, &redisTap{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stderr.String(), "interrupted after ") || !strings.HasSuffix(stderr.String(), " of 1h0m0s\n") {
		t.Errorf("stderr: %s", &stderr)
	}
	if r.total.allowed == 0 || !strings.Contains(stdout.String(), fmt.Sprintf(`"allowed":%d,"charged":%[1]d,"denied":0,`, r.total.allowed)) {
		t.Errorf("stdout: %s", &stdout)
	}
}
