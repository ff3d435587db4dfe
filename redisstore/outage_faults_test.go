//go:build unix

package redisstore

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// outage is a fault of a server with a store on it.
type outage struct {
	*redistest.Server
	t     *testing.T
	relay *relay
	hear  func()
	busy  sync.WaitGroup
}

func (o *outage) do(args ...string) { o.t.Helper(); command(o.t, o.Server, args...) }

// doWith is do with a password that the server has been given.
func (o *outage) doWith(password string, args ...any) {
	o.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: o.Addr, Password: password})
	defer client.Close()
	if err := client.Do(context.Background(), args...).Err(); err != nil {
		o.t.Fatal(err)
	}
}

// direct, relayed and asUser are ways to the server.
func direct(o *outage) string { return o.URL() }

func relayed(o *outage) string {
	o.relay = newRelay(o.t, o.Addr)
	return o.relay.url()
}

func asUser(o *outage) string {
	o.do("ACL", "SETUSER", "tidegate", "on", ">"+password, "~*", "+@all")
	return (&url.URL{Scheme: "redis", User: url.UserPassword("tidegate", password), Host: o.Addr}).String()
}

// answers is a server that answers everything so; an empty text is none.
func answers(text string) func(*outage) { return func(o *outage) { o.relay.answer.Store(&text) } }

func passes(o *outage) { o.relay.answer.Store(nil) }

// does sends the server a command.
func does(args ...string) func(*outage) { return func(o *outage) { o.t.Helper(); o.do(args...) } }

// tableKey returns a key of the table of the replicas.
func (o *outage) tableKey() string {
	o.t.Helper()
	for _, k := range storedKeys(o.t, o.Server, "*%=replicas") {
		return k
	}
	o.t.Fatal("there is no table")
	return ""
}

// faults are what befalls a server. Those of clusters and sentinels, and what is no outage, have tests of their own.
var faults = []struct {
	name       string
	address    func(*outage) string
	begin, end func(*outage)
	kind       resilience.ErrorKind
}{
	{name: "connection refused", address: direct, kind: resilience.KindConnection,
		begin: func(o *outage) { o.Kill() }, end: func(o *outage) { o.Restart() }},
	{name: "black hole, the backlog is full", address: relayed, kind: resilience.KindTimeout,
		begin: func(o *outage) { o.hear = o.relay.deafen(o.t) }, end: func(o *outage) { o.hear() }},
	{name: "black hole, accepts and never answers", address: relayed, kind: resilience.KindTimeout,
		begin: answers(""), end: passes},
	{name: "paused", address: direct, kind: resilience.KindTimeout,
		begin: func(o *outage) { o.Pause() }, end: func(o *outage) { o.Resume() }},
	{name: "loading", address: relayed, kind: resilience.KindLoading,
		begin: answers("-LOADING Redis is loading the dataset in memory\r\n"), end: passes},
	{name: "garbage", address: relayed, kind: resilience.KindOther,
		begin: answers("hm? \x00\xff\r\n"), end: passes},
	{name: "demoted", address: direct, kind: resilience.KindReadOnly,
		begin: does("REPLICAOF", "127.0.0.1", "1"), end: does("REPLICAOF", "NO", "ONE")},
	{name: "replicas are missing", address: direct, kind: resilience.KindReadOnly,
		begin: does("CONFIG", "SET", "min-replicas-to-write", "1"), end: does("CONFIG", "SET", "min-replicas-to-write", "0")},
	{name: "out of memory", address: direct, kind: resilience.KindMemory,
		begin: does("CONFIG", "SET", "maxmemory", "1"), end: does("CONFIG", "SET", "maxmemory", "0")},
	{name: "wrong password", address: asUser, kind: resilience.KindAuth, begin: func(o *outage) {
		o.do("ACL", "SETUSER", "tidegate", "resetpass", ">another")
		o.do("CLIENT", "KILL", "USER", "tidegate")
	}, end: does("ACL", "SETUSER", "tidegate", "resetpass", ">"+password)},
	{name: "a password is asked for", address: direct, kind: resilience.KindAuth, begin: func(o *outage) {
		o.do("CONFIG", "SET", "requirepass", "another")
		o.doWith("another", "CLIENT", "KILL", "TYPE", "normal")
	}, end: func(o *outage) { o.doWith("another", "CONFIG", "SET", "requirepass", "") }},
	{name: "no permission", address: asUser, kind: resilience.KindAuth,
		begin: does("ACL", "SETUSER", "tidegate", "-@all"), end: does("ACL", "SETUSER", "tidegate", "+@all")},
	{name: "busy", address: direct, kind: resilience.KindBusy, begin: func(o *outage) {
		o.do("CONFIG", "SET", "lua-time-limit", "5")
		o.busy.Go(func() { _, _ = o.Do("EVAL", "while true do end", "0") })
	}, end: func(o *outage) {
		o.do("SCRIPT", "KILL")
		o.busy.Wait()
	}},
	{name: "a wrong type under the table", address: direct, kind: resilience.KindWrongType, begin: func(o *outage) {
		key := o.tableKey()
		o.do("DEL", key)
		o.do("SET", key, "somebody's")
	}, end: func(o *outage) { o.do("DEL", o.tableKey()) }},
}

// TestOutages: whatever befalls the server, callers get a decision, of the fallback, and none waits for longer than the
// deadline and a little; while the store counts as away they wait for nothing; it decides again within a second; few lines
// are logged, and nothing is left behind.
func TestOutages(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, before) })
			o := &outage{Server: redistest.StartTCP(t), t: t}
			g := guard(t, f.address(o), nil)
			c := newCharge(t, "api", "k", "100000/s burst 1000", 1)
			mustTake(t, g, c)
			g.returns(c) // from a first connection that took too long
			g.hasBeaten()
			f.begin(o)
			g.goesAway(c, f.kind)
			f.end(o)
			g.returns(c)
			g.fewLines()
			if n := strings.Count(g.logged(), "\n"); n < 2 {
				t.Errorf("%d lines:\n%s", n, g.logged())
			}
		})
	}
}
