package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// TestFlushesAreNoOutage: scripts that are gone are sent again; data that are gone are noticed.
func TestFlushesAreNoOutage(t *testing.T) {
	srv := redistest.StartTCP(t)
	g := guard(t, srv.URL(), nil)
	c := newCharge(t, "api", "k", "1000/1000h", 1)
	mustTake(t, g, c)
	g.returns(c)
	for range 20 {
		command(t, srv, "SCRIPT", "FLUSH")
		for range 5 {
			if from := g.source(c); from != tidegate.SourceStore {
				t.Fatalf("the source is %v", from)
			}
		}
	}
	spent := 1000 - remaining(t, g, c)
	eventually(t, 5*time.Second, "a heartbeat has left its marker", func() error {
		if len(storedKeys(t, srv, "*%=marker")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	command(t, srv, "FLUSHALL")
	eventually(t, 5*time.Second, "the marker's loss is noticed", func() error {
		if !strings.Contains(g.logged(), "lost its data") {
			return errors.New("not yet")
		}
		return nil
	})
	if from := g.source(c); from != tidegate.SourceStore {
		t.Errorf("the source is %v", from)
	}
	if n := 1000 - remaining(t, g, c); n < spent {
		t.Errorf("%d are spent, and %d were", n, spent)
	}
}

// TestOneConnection: five hundred callers with one connection are all decided, and none waits long.
func TestOneConnection(t *testing.T) {
	g := guard(t, redistest.StartTCP(t).URL(), &Config{PoolSize: 1})
	c := newCharge(t, "api", "k", "1000000/s", 1)
	mustTake(t, g, c)
	g.returns(c)
	all := g.ask(c, 500, 500*time.Millisecond)
	if d := slowest(all); d > 3*deadline && !raceDetector {
		t.Errorf("one waited %v", d)
	}
	// On a busy machine a batch may be late, and then hundreds with it. That is soon over.
	g.returns(c)
	g.fewLines()
	t.Logf("%d takes, errors %s", len(all), g.kinds())
}

// TestWrongTypeIsNoOutage: of one key the fallback decides, of the others the store.
func TestWrongTypeIsNoOutage(t *testing.T) {
	srv := redistest.StartTCP(t)
	g := guard(t, srv.URL(), nil)
	c := newCharge(t, "api", "k", "1000/h", 1)
	other := newCharge(t, "api", "other", "1000/h", 1)
	mustTake(t, g, c)
	g.returns(c)
	for _, key := range storedKeys(t, srv, "*api*") {
		command(t, srv, "DEL", key)
		command(t, srv, "HSET", key, "a", "b")
	}
	for range 50 {
		if from := g.source(c); from != tidegate.SourceFallback {
			t.Fatalf("the source is %v", from)
		}
	}
	if from := g.source(other); from != tidegate.SourceStore || g.Status().State != resilience.Shared {
		t.Errorf("the source of another key is %v, %+v", from, g.Status())
	}
}

// TestEviction: a server that evicts decides on, whatever goes, and does not fill the log with what was lost.
func TestEviction(t *testing.T) {
	srv := redistest.StartTCP(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	g := guard(t, srv.URL(), nil)
	mustTake(t, g, newCharge(t, "api", "k", "10/h", 1))
	g.returns(newCharge(t, "api", "k", "10/h", 1))
	fallbacks := 0
	for i := range 15_000 {
		if g.source(newCharge(t, "api", fmt.Sprint(i), "10/h", 1)) != tidegate.SourceStore {
			fallbacks++
		}
	}
	if fallbacks > 100 {
		t.Errorf("%d fell back; errors %s", fallbacks, g.kinds())
	}
	g.fewLines()
}

// TestPasswordOfOthers: connections that are open stay good when the password changes, or one is asked for.
func TestPasswordOfOthers(t *testing.T) {
	srv := redistest.StartTCP(t)
	command(t, srv, "ACL", "SETUSER", "tidegate", "on", ">"+password, "~*", "+@all")
	user := url.URL{Scheme: "redis", User: url.UserPassword("tidegate", password), Host: srv.Addr}
	for name, g := range map[string]*guarded{"default": guard(t, srv.URL(), nil), "user": guard(t, user.String(), nil)} {
		c := newCharge(t, "api", name, "100000/s", 1)
		mustTake(t, g, c)
		g.returns(c)
		if name == "user" {
			command(t, srv, "ACL", "SETUSER", "tidegate", "resetpass", ">another")
		} else {
			command(t, srv, "CONFIG", "SET", "requirepass", "another")
		}
		for range 50 { // one after the other, so that no new connection is needed
			if from := g.source(c); from != tidegate.SourceStore {
				t.Fatalf("%s: the source is %v; errors %s", name, from, g.kinds())
			}
		}
		if name == "default" {
			client := redis.NewClient(&redis.Options{Addr: srv.Addr, Password: "another"})
			if err := client.ConfigSet(context.Background(), "requirepass", "").Err(); err != nil {
				t.Error(err)
			}
			client.Close()
		}
	}
}
