package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/rules/source"
)

func mustPush(t *testing.T, r *Rules, text string, expect int64) int64 {
	t.Helper()
	version, err := r.Push(context.Background(), []byte(text), "anna", expect)
	if err != nil {
		t.Fatalf("push %q: %v", text, err)
	}
	return version
}

// TestRules: a push replaces what was expected and nothing else, versions are times that grow, and what was is kept.
func TestRules(t *testing.T) {
	s, now := beating(t, redistest.Start(t).URL(), &Config{KeySecret: []byte("a secret of the tests")})
	r, ctx := s.Rules(), context.Background()
	if _, err := r.Pull(ctx); !errors.Is(err, source.ErrNone) {
		t.Errorf("a pull of nothing: %v", err)
	}
	if old, err := r.History(ctx); err != nil || len(old) > 0 {
		t.Errorf("the history of nothing: %v, %v", old, err)
	}
	first := mustPush(t, r, "first", 0)
	if first != now.Load() {
		t.Errorf("version %d at %d", first, now.Load())
	}
	conflict := func(expect, current int64) {
		t.Helper()
		_, err := r.Push(ctx, []byte("never"), "bob", expect)
		if c, ok := errors.AsType[*source.ConflictError](err); !ok || c.Expected != expect || c.Current != current {
			t.Errorf("a push that expects %d: %v", expect, err)
		}
	}
	conflict(0, first)
	conflict(first-1, first)
	now.Add(5)
	if v := mustPush(t, r, "first", first); v != first {
		t.Errorf("the same text has version %d, not %d", v, first)
	}
	second := mustPush(t, r, "second\nline", first)
	now.Add(-1_000_000) // the clock is set back
	third := mustPush(t, r, "third", source.AnyVersion)
	if second != first+5 || third != second+1 {
		t.Errorf("versions %d, %d, %d", first, second, third)
	}
	conflict(second, third)
	doc, err := r.Pull(ctx)
	if err != nil || string(doc.Text) != "third" || doc.Version != third || doc.By != "anna" || !strings.Contains(doc.Origin, "%=rules") {
		t.Errorf("pulled %+v, %v", doc, err)
	}
	old, err := r.History(ctx)
	if err != nil || len(old) != 2 || string(old[0].Text) != "second\nline" || old[0].Version != second || old[1].Version != first || old[1].By != "anna" {
		t.Errorf("the history is %+v, %v", old, err)
	}
	for i := range MaxRulesHistory + 3 {
		mustPush(t, r, fmt.Sprint("text ", i), source.AnyVersion)
	}
	if old, err = r.History(ctx); err != nil || len(old) != MaxRulesHistory || string(old[0].Text) != fmt.Sprint("text ", MaxRulesHistory+1) {
		t.Errorf("the history has %d entries, the latest %q: %v", len(old), old[0].Text, err)
	}
	if _, err := r.Push(ctx, nil, "", 0); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("a push of nothing: %v", err)
	}
}

// TestRulesRace: of several who replace one version, one does.
func TestRulesRace(t *testing.T) {
	for name, url := range map[string]string{"standalone": redistest.Start(t).URL(), "cluster": redistest.StartCluster(t).URL()} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, url, nil)
			version := mustPush(t, s.Rules(), "0", 0)
			for round := range 20 {
				var wg sync.WaitGroup
				versions := make([]int64, 4)
				for i := range versions {
					wg.Go(func() {
						v, err := s.Rules().Push(context.Background(), fmt.Appendf(nil, "%d of %d", i, round), "", version)
						if _, conflict := errors.AsType[*source.ConflictError](err); err != nil && !conflict {
							t.Error(err)
						}
						versions[i] = v
					})
				}
				wg.Wait()
				slices.Sort(versions)
				if versions[2] != 0 || versions[3] <= version {
					t.Fatalf("round %d, after %d: %v", round, version, versions)
				}
				version = versions[3]
			}
		})
	}
}

// watching collects what a watch delivers.
type watching struct {
	mu   sync.Mutex
	docs []source.Document
	last error
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
				w.docs = append(w.docs, d)
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

// sees waits until the watch has such a version, or such an error.
func (w *watching) sees(t *testing.T, within time.Duration, version int64, want error) {
	t.Helper()
	eventually(t, within, "the watch sees it", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		have := int64(0)
		if len(w.docs) > 0 {
			have = w.docs[len(w.docs)-1].Version
		}
		if have != version || !errors.Is(w.last, want) {
			return fmt.Errorf("version %d, error %w", have, w.last)
		}
		return nil
	})
}

// TestRulesWatch: a change is seen within a second, also after the server was away, and each only once.
func TestRulesWatch(t *testing.T) {
	srv := redistest.StartTCP(t)
	s := openStore(t, srv.URL(), nil)
	w := watch(t, s.Rules())
	w.sees(t, time.Second, 0, source.ErrNone)
	first := mustPush(t, s.Rules(), "first", 0)
	w.sees(t, time.Second, first, nil)
	second := mustPush(t, s.Rules(), "second", first)
	w.sees(t, time.Second, second, nil)
	w.mu.Lock()
	n := len(w.docs)
	w.mu.Unlock()
	if n != 2 {
		t.Errorf("%d documents were delivered", n)
	}
	command(t, srv, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	third := mustPush(t, openStore(t, srv.URL(), nil).Rules(), "third", second)
	w.sees(t, time.Second, third, nil)

	srv.Pause()
	eventually(t, 10*time.Second, "the watch says that the server does not answer", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last == nil {
			return errors.New("it does not")
		}
		return nil
	})
	srv.Resume()
	w.sees(t, 2*time.Second, third, source.ErrUnchanged)

	srv.Restart() // without its data
	w.sees(t, 10*time.Second, third, source.ErrNone)
	fourth := mustPush(t, openStore(t, srv.URL(), nil).Rules(), "fourth", 0)
	w.sees(t, time.Second, fourth, nil)
}

// TestRulesForeign: what is under the key and was not written by us is an error, not rules.
func TestRulesForeign(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	key := s.Rules().keys()[0]
	for _, set := range [][]string{{"SET", key, "text"}, {"HSET", key, "version", "x"}, {"HSET", key, "other", "x"}} {
		command(t, srv, "DEL", key)
		command(t, srv, set...)
		if d, err := s.Rules().Pull(context.Background()); err == nil || errors.Is(err, source.ErrNone) {
			t.Errorf("%q: pulled %+v, %v", set, d, err)
		}
	}
}

// TestRulesThroughFailover: rules that reached the replica are those that there are.
func TestRulesThroughFailover(t *testing.T) {
	set := redistest.StartSentinel(t)
	s := openStore(t, "redis+sentinel://"+strings.Join(set.SentinelAddrs, ",")+"/"+set.MasterName, nil)
	w := watch(t, s.Rules())
	first := mustPush(t, s.Rules(), "first", 0)
	w.sees(t, time.Second, first, nil)
	set.WaitReplicated(t)
	set.WaitFailover(t, set.KillPrimary(t))
	var second int64
	eventually(t, 20*time.Second, "the new primary takes a push", func() (err error) {
		second, err = s.Rules().Push(context.Background(), []byte("second"), "", first)
		return err
	})
	w.sees(t, 2*time.Second, second, nil)
}
