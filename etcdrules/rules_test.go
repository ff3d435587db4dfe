package etcdrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tidegate-go/tidegate/internal/etcdtest"
	"github.com/tidegate-go/tidegate/rules/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, url string, cfg *Config) *Rules {
	t.Helper()
	r, err := Open(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func mustPush(t *testing.T, r *Rules, text string, expect int64) int64 {
	t.Helper()
	version, err := r.Push(context.Background(), []byte(text), "anna", expect)
	if err != nil {
		t.Fatalf("push %q: %v", text, err)
	}
	return version
}

// put writes the rules as another program does.
func put(t *testing.T, r *Rules, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := r.client.Put(ctx, r.key, text); err != nil {
		t.Fatal(err)
	}
}

// TestPush: a push replaces what was expected and nothing else, and versions are times that grow.
func TestPush(t *testing.T) {
	srv, ctx := etcdtest.Start(t), context.Background()
	now := time.UnixMicro(4_000_000_000_000_000)
	r := open(t, srv.URL("tidegate/rules"), &Config{Now: func() time.Time { return now }})
	if _, err := r.Pull(ctx); !errors.Is(err, source.ErrNone) {
		t.Errorf("a pull of nothing: %v", err)
	}
	conflict := func(expect, current int64) {
		t.Helper()
		_, err := r.Push(ctx, []byte("never"), "bob", expect)
		if c, ok := errors.AsType[*source.ConflictError](err); !ok || c.Expected != expect || c.Current != current {
			t.Errorf("a push that expects %d: %v", expect, err)
		}
	}
	conflict(5, 0)
	first := mustPush(t, r, "first", 0)
	conflict(0, first)
	conflict(first+1, first)
	now = now.Add(5 * time.Microsecond)
	if v := mustPush(t, r, "first", first); v != first {
		t.Errorf("the same text has version %d, not %d", v, first)
	}
	second := mustPush(t, r, "second", first)
	now = now.Add(-time.Hour)
	third := mustPush(t, r, "third", source.AnyVersion)
	if second != first+5 || third != second+1 {
		t.Errorf("versions %d, %d, %d", first, second, third)
	}
	doc, err := r.Pull(ctx)
	if err != nil || string(doc.Text) != "third" || doc.Version != third || doc.By != "anna" || doc.Origin != "etcd "+srv.Addr+", tidegate/rules" {
		t.Errorf("pulled %+v, %v", doc, err)
	}

	// Another program writes: the version grows all the same, and nobody is said to have been it.
	put(t, r, "fourth")
	if doc, err = r.Pull(ctx); err != nil || doc.Version <= third || doc.By != "" || string(doc.Text) != "fourth" {
		t.Errorf("pulled %+v, %v", doc, err)
	}
	conflict(third, doc.Version)
	if fifth := mustPush(t, r, "fifth", doc.Version); fifth <= doc.Version {
		t.Errorf("version %d after %d", fifth, doc.Version)
	}
	if _, err := r.client.Delete(ctx, r.key); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pull(ctx); !errors.Is(err, source.ErrNone) {
		t.Errorf("a pull of what was deleted: %v", err)
	}
	if v := mustPush(t, r, "sixth", 0); v <= doc.Version {
		t.Errorf("after the rules were deleted the version is %d, before it was %d", v, doc.Version)
	}
	if _, err := r.Push(ctx, nil, "", 0); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("a push of nothing: %v", err)
	}
}

// TestPushRace: of several who replace one version, one does.
func TestPushRace(t *testing.T) {
	srv := etcdtest.Start(t)
	r := open(t, srv.URL("k"), &Config{Timeout: 20 * time.Second})
	version := mustPush(t, r, "0", 0)
	for round := range 10 {
		var wg sync.WaitGroup
		versions := make([]int64, 4)
		for i := range versions {
			wg.Go(func() {
				v, err := r.Push(context.Background(), fmt.Appendf(nil, "%d of %d", i, round), "", version)
				if _, conflict := errors.AsType[*source.ConflictError](err); err != nil && !conflict {
					t.Error(err)
				}
				if err == nil {
					versions[i] = v
				}
			})
		}
		wg.Wait()
		slices.Sort(versions)
		if versions[2] != 0 || versions[3] <= version {
			t.Fatalf("round %d, after %d: %v", round, version, versions)
		}
		version = versions[3]
	}
}

// watching collects what a watch delivers.
type watching struct {
	mu    sync.Mutex
	texts []string
	last  error
}

func watch(t *testing.T, r *Rules) *watching {
	t.Helper()
	w := &watching{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- r.Watch(ctx, func(d source.Document, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.last = err; err == nil {
				w.texts = append(w.texts, string(d.Text))
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return w
}

// sees waits until the watch has delivered the text, and such an error since; any, where want is anyError.
func (w *watching) sees(t *testing.T, within time.Duration, text string, want error) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		w.mu.Lock()
		texts, last := slices.Clone(w.texts), w.last
		w.mu.Unlock()
		have := ""
		if len(texts) > 0 {
			have = texts[len(texts)-1]
		}
		if have == text && (errors.Is(last, want) || last != nil && errors.Is(want, errAny)) {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %v: %q and %v, but %q and %v", within, text, want, texts, last)
		}
	}
}

var errAny = errors.New("any error")

// TestWatch: a change is seen within a second, whoever made it, also after etcd was away, and each once.
func TestWatch(t *testing.T) {
	srv := etcdtest.Start(t)
	r := open(t, srv.URL("k"), &Config{Timeout: 5 * time.Second})
	w := watch(t, r)
	w.sees(t, 5*time.Second, "", source.ErrNone)
	mustPush(t, r, "one", 0)
	w.sees(t, time.Second, "one", nil)
	put(t, r, "two")
	w.sees(t, time.Second, "two", nil)
	if _, err := r.client.Delete(context.Background(), r.key); err != nil {
		t.Fatal(err)
	}
	w.sees(t, time.Second, "two", source.ErrNone)
	mustPush(t, r, "three", 0)
	w.sees(t, time.Second, "three", nil)

	srv.Kill()
	w.sees(t, 20*time.Second, "three", errAny)
	srv.Restart()
	w.sees(t, 5*time.Second, "three", source.ErrUnchanged)
	mustPush(t, open(t, srv.URL("k"), nil), "four", source.AnyVersion)
	w.sees(t, time.Second, "four", nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(w.texts, want) {
		t.Errorf("seen %q, want %q", w.texts, want)
	}
}

// TestWatchCompacted: a watch whose revision was compacted while it was cut off sees the last change all the same.
func TestWatchCompacted(t *testing.T) {
	srv := etcdtest.Start(t)
	r := open(t, srv.URL("k"), &Config{Timeout: 5 * time.Second})
	mustPush(t, r, "one", 0)
	ctx := t.Context()
	now, err := r.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for i := range 5 {
		last = mustPush(t, r, fmt.Sprint("text ", i), source.AnyVersion)
	}
	latest, err := r.get(ctx)
	if err != nil || latest.doc.Version != last {
		t.Fatal(latest, err)
	}
	if _, err := r.client.Compact(ctx, latest.store); err != nil {
		t.Fatal(err)
	}
	// As if the watch had been cut off since the first push.
	done := make(chan struct{})
	go func() {
		defer close(done)
		l := &looker{rules: r, deliver: func(source.Document, error) {}}
		l.follow(ctx, now.store+1)
	}()
	select {
	case <-done: // so that Watch looks, and begins anew
	case <-time.After(10 * time.Second):
		t.Fatal("a watch of a revision that was compacted goes on and tells of nothing")
	}
	watch(t, r).sees(t, 5*time.Second, "text 4", nil)
}

// TestNew: a client of the caller's own serves, and stays open.
func TestNew(t *testing.T) {
	srv := etcdtest.Start(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{srv.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := New(client, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustPush(t, r, "one", 0)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if doc, err := r.Pull(context.Background()); err != nil || string(doc.Text) != "one" {
		t.Errorf("after Close: %+v, %v", doc, err)
	}
	for name, f := range map[string]func() (*Rules, error){
		"no client":   func() (*Rules, error) { return New(nil, "k", nil) },
		"no key":      func() (*Rules, error) { return New(client, "", nil) },
		"bad timeout": func() (*Rules, error) { return New(client, "k", &Config{Timeout: -1}) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAway: where nobody is, a call ends within its time and says so.
func TestAway(t *testing.T) {
	r := open(t, "etcd://127.0.0.1:1/k", &Config{Timeout: 300 * time.Millisecond})
	start := time.Now()
	_, err := r.Pull(context.Background())
	if err == nil || errors.Is(err, source.ErrNone) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Pull(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: %v", err)
	}
}
