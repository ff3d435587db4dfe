package redisstore

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// beating is a store whose scripts see an injected time.
func beating(t *testing.T, url string, cfg *Config) (*Store, *atomic.Int64) {
	t.Helper()
	s := openStore(t, url, cfg)
	s.scripts = newScripts(true)
	now := &atomic.Int64{}
	now.Store(4_000_000_000_000_000) // not in the past, for that is when keys go
	s.inject = now.Load
	return s, now
}

func beat(t *testing.T, s *Store, id string, admitted map[string]int64) tidegate.Table {
	t.Helper()
	return mustBeat(t, s, tidegate.Beat{ID: id, Marker: "marker of " + id, Admitted: admitted})
}

func mustBeat(t *testing.T, s *Store, b tidegate.Beat) tidegate.Table {
	t.Helper()
	table, err := s.Beat(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestBeat: all replicas see one table of the last complete second, in which each counts once, whatever rules are called.
func TestBeat(t *testing.T) {
	srv := redistest.Start(t)
	for name, cfg := range map[string]*Config{"open": {Prefix: "a:"}, "secret": {Prefix: "b:", KeySecret: []byte("a secret of the tests")}} {
		t.Run(name, func(t *testing.T) {
			s, now := beating(t, srv.URL(), cfg)
			strange := "per user/100% \x00" + strings.Repeat("long", 100)
			first := beat(t, s, "a", map[string]int64{"api": 70, strange: 1, "": 5})
			if !first.Counted || first.Present || first.Beaten != 0 || len(first.Total) > 0 || first.Replicas != 1 || first.Marker != "marker of a" {
				t.Errorf("the first beat of all: %+v", first)
			}
			if beat(t, s, "a", map[string]int64{"api": 1000}).Counted {
				t.Error("a second beat within a second counted")
			}
			b := beat(t, s, "b", map[string]int64{"api": 30, "other": 1 << 60})
			if b.Replicas != 2 || b.Marker != "marker of a" || len(b.Total) > 0 {
				t.Errorf("another's first beat: %+v", b)
			}
			now.Add(1_000_000)
			total := map[string]int64{"api": 100, strange: 1, "": 5, "other": 1 << 52}
			a := beat(t, s, "a", nil)
			if !a.Present || a.Beaten != 2 || !maps.Equal(a.Total, total) || a.Own["api"] != 70 || a.Own[strange] != 1 || len(a.Own) != 3 {
				t.Errorf("a's table: %+v", a)
			}
			b = beat(t, s, "b", map[string]int64{"api": 9})
			if !b.Present || b.Beaten != 2 || !maps.Equal(b.Total, total) || b.Own["api"] != 30 || b.Second != now.Load()/1e6-1 {
				t.Errorf("b's table: %+v", b)
			}
			now.Add(1_000_000)
			c := beat(t, s, "c", nil)
			if c.Present || c.Beaten != 2 || c.Total["api"] != 9 || c.Replicas != 3 {
				t.Errorf("who was not there: %+v", c)
			}
			now.Add(2_000_000)
			if c = beat(t, s, "c", nil); c.Beaten != 0 || c.Present || c.Replicas != 3 {
				t.Errorf("after a second in which nobody beat: %+v", c)
			}
		})
	}
	for _, k := range storedKeys(t, srv, "b:*") {
		for _, f := range commandFields(t, srv, k) {
			if strings.Contains(f, "api") || strings.Contains(f, "other") {
				t.Errorf("%s names a rule: %s", k, f)
			}
		}
	}
}

func commandFields(t *testing.T, srv *redistest.Server, k string) (texts []string) {
	t.Helper()
	if command(t, srv, "TYPE", k) != "hash" {
		return nil
	}
	list, _ := command(t, srv, "HGETALL", k).([]any)
	for _, x := range list {
		texts = append(texts, fmt.Sprint(x))
	}
	return texts
}

// TestBeatsExpire: a replica that says nothing for three seconds is gone, one that leaves is so at once, and those that
// have reported since some moment are told from those that have not.
func TestBeatsExpire(t *testing.T) {
	s, now := beating(t, redistest.Start(t).URL(), nil)
	beat(t, s, "dies", nil)
	now.Add(500_000)
	beat(t, s, "leaves", nil)
	since := now.Add(100)
	if got := mustBeat(t, s, tidegate.Beat{ID: "stays", Since: since}); got.Replicas != 3 || got.Reported != 1 {
		t.Errorf("%+v", got)
	}
	mustBeat(t, s, tidegate.Beat{ID: "leaves", Leave: true})
	if got := beat(t, s, "stays", nil); got.Replicas != 2 {
		t.Errorf("after one has left: %+v", got)
	}
	now.Add(2_500_000 - 100)
	if got := beat(t, s, "stays", nil); got.Replicas != 2 {
		t.Errorf("at three seconds: %+v", got)
	}
	now.Add(1)
	if got := beat(t, s, "stays", nil); got.Replicas != 1 {
		t.Errorf("after three seconds: %+v", got)
	}
	now.Add(-3600_000_000) // the clock is set back
	if got := beat(t, s, "new", nil); got.Replicas != 1 || !got.Counted {
		t.Errorf("after a step back: %+v", got)
	}
}

// TestMarker: it stays as the first has left it, until the data goes.
func TestMarker(t *testing.T) {
	srv := redistest.Start(t)
	s, now := beating(t, srv.URL(), nil)
	beat(t, s, "a", nil)
	now.Add(40_000_000)
	if m := beat(t, s, "b", nil).Marker; m != "marker of a" {
		t.Error(m)
	}
	command(t, srv, "FLUSHALL")
	if m := beat(t, s, "b", nil).Marker; m != "marker of b" {
		t.Error(m)
	}
}

// TestBeatCost: a beat is one command of a bounded number of steps, however many replicas there are, also in a cluster.
func TestBeatCost(t *testing.T) {
	srv := redistest.Start(t)
	var hook countingHook
	s := openStore(t, srv.URL(), &Config{Hooks: []redis.Hook{&hook}})
	rules := map[string]int64{"a": 1, "b": 2, "c": 3}
	cost := func(id string) map[string]int {
		before := commandStats(t, srv)
		if n := hook.counted(func() { beat(t, s, id, rules) }); n != 1 {
			t.Errorf("%d commands", n)
		}
		more := moreCalls(before, commandStats(t, srv))
		delete(more, "del") // at most one, for the first of a second
		return more
	}
	beat(t, s, "warm", rules)
	for i := range 100 {
		cost(fmt.Sprint("replica", i))
	}
	for range 3 { // the first of a second does a little more
		if few, many := cost("x"), cost("y"); few["hincrby"] > 4 || many["hincrby"] > 4 || many["hget"]+many["hgetall"] > 5 {
			t.Errorf("%v, %v", few, many)
		}
	}
	clu := redistest.StartCluster(t)
	cs := openStore(t, clu.URL(), nil)
	for range 2 {
		if got := beat(t, cs, "x", rules); got.Replicas != 1 {
			t.Errorf("in a cluster: %+v", got)
		}
	}
}

func TestBeatRefusesBadIDs(t *testing.T) {
	s := openStore(t, "redis://127.0.0.1:1", nil)
	for _, id := range []string{"", strings.Repeat("x", 101)} {
		if _, err := s.Beat(context.Background(), tidegate.Beat{ID: id}); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("an ID of %d bytes: %v", len(id), err)
		}
	}
	_, err := s.Beat(context.Background(), tidegate.Beat{ID: "x"})
	wantStoreError(t, err)
}
