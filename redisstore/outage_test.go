package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
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
	g := &guarded{t: t, log: &strings.Builder{}, own: map[resilience.ErrorKind]int{}}
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

// relay stands between a store and a server on a port, and may answer in the server's place.
type relay struct {
	server   string
	listener net.Listener
	answer   atomic.Pointer[string] // to each command; empty: nothing
	mu       sync.Mutex
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{server: server, listener: l}
	r.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	r.wg.Go(func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if text := r.answer.Load(); text != nil {
			commands := strings.Count("\r\n"+string(buf[:n]), "\r\n*")
			if _, err := client.Write([]byte(strings.Repeat(*text, commands))); err != nil {
				return
			}
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestOutages: whatever befalls the server, callers get a decision, of the fallback, and none waits for longer than the
// deadline and a little; while the store counts as away they wait for nothing; and it decides again within a second.
func TestOutages(t *testing.T) {
	user := func(t *testing.T, srv *redistest.Server) string {
		t.Helper()
		command(t, srv, "ACL", "SETUSER", "tidegate", "on", ">"+password, "~*", "+@all")
		return (&url.URL{Scheme: "redis", User: url.UserPassword("tidegate", password), Host: srv.Addr}).String()
	}
	var relays *relay
	relayed := func(t *testing.T, srv *redistest.Server) string {
		t.Helper()
		relays = newRelay(t, srv.Addr)
		return "redis://" + relays.listener.Addr().String()
	}
	answers := func(text string) func(*testing.T, *redistest.Server) {
		return func(*testing.T, *redistest.Server) { relays.answer.Store(&text) }
	}
	passes := func(*testing.T, *redistest.Server) { relays.answer.Store(nil) }
	do := func(args ...string) func(*testing.T, *redistest.Server) {
		return func(t *testing.T, srv *redistest.Server) { t.Helper(); command(t, srv, args...) }
	}
	var busy sync.WaitGroup
	for _, f := range []struct {
		name       string
		address    func(*testing.T, *redistest.Server) string // default: the server's
		begin, end func(*testing.T, *redistest.Server)
		kind       resilience.ErrorKind
	}{
		{name: "killed", begin: func(_ *testing.T, s *redistest.Server) { s.Kill() }, end: func(_ *testing.T, s *redistest.Server) { s.Restart() }, kind: resilience.KindConnection},
		{name: "paused", begin: func(_ *testing.T, s *redistest.Server) { s.Pause() }, end: func(_ *testing.T, s *redistest.Server) { s.Resume() }, kind: resilience.KindTimeout},
		{name: "black hole", address: relayed, begin: answers(""), end: passes, kind: resilience.KindTimeout},
		{name: "loading", address: relayed, begin: answers("-LOADING Redis is loading the dataset in memory\r\n"), end: passes, kind: resilience.KindLoading},
		{name: "garbage", address: relayed, begin: answers("hm? \x00\xff\r\n"), end: passes, kind: resilience.KindOther},
		{name: "demoted", begin: do("REPLICAOF", "127.0.0.1", "1"), end: do("REPLICAOF", "NO", "ONE"), kind: resilience.KindReadOnly},
		{name: "out of memory", begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0"), kind: resilience.KindMemory},
		{name: "wrong password", address: user, kind: resilience.KindAuth, begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "ACL", "SETUSER", "tidegate", "resetpass", ">another")
			command(t, s, "CLIENT", "KILL", "USER", "tidegate")
		}, end: do("ACL", "SETUSER", "tidegate", "resetpass", ">"+password)},
		{name: "busy", kind: resilience.KindBusy, begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "lua-time-limit", "5")
			busy.Go(func() { _, _ = s.Do("EVAL", "while true do end", "0") })
		}, end: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "SCRIPT", "KILL")
			busy.Wait()
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			srv := redistest.StartTCP(t)
			address := srv.URL()
			if f.address != nil {
				address = f.address(t, srv)
			}
			g := guard(t, address, nil)
			c := newCharge(t, "api", "k", "100000/s burst 1000", 1)
			mustTake(t, g, c)
			g.returns(c) // from a first connection that took too long
			f.begin(t, srv)
			first := g.ask(c, 8, 700*time.Millisecond)
			if d := slowest(first); d > 3*deadline && !raceDetector {
				t.Errorf("one waited %v as the outage began", d)
			}
			if st := g.Status(); st.State != resilience.Fallback || st.Err == nil {
				t.Fatalf("%+v after errors %s", st, g.kinds())
			}
			open := g.ask(c, 8, 700*time.Millisecond)
			for _, x := range open {
				if x.from != tidegate.SourceFallback || !x.ok {
					t.Fatalf("%+v", x)
				}
			}
			if d := percentile99(open); d > time.Millisecond && !raceDetector {
				t.Errorf("while it is away, of a hundred one waits %v", d)
			}
			if !strings.Contains(g.kinds(), string(f.kind)+":") {
				t.Errorf("the errors are %s, not of the kind %q", g.kinds(), f.kind)
			}
			if strings.Contains(g.logged(), password) {
				t.Error("the password is logged")
			}
			f.end(t, srv)
			g.returns(c)
			if n := strings.Count(g.logged(), "\n"); n > 10 {
				t.Errorf("%d lines:\n%s", n, g.logged())
			}
		})
	}
}

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

// TestSpentInAnOutage: what was admitted while a server was stopped, or was dead and came back empty, is spent after.
func TestSpentInAnOutage(t *testing.T) {
	for name, f := range map[string]struct{ begin, end func(*redistest.Server) }{
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.StartTCP(t)
			g := guard(t, srv.URL(), nil)
			c := newCharge(t, "daily", "k", "1000/day", 1)
			mustTake(t, g, c)
			g.returns(c)
			f.begin(srv)
			n := int64(0)
			for n < 50 {
				if d := mustTake(t, g, c)[0]; d.Source == tidegate.SourceFallback {
					n++
				}
			}
			f.end(srv)
			eventually(t, 5*time.Second, "debts are paid", func() error {
				if st := g.Status(); st.State != resilience.Shared || st.Debts > 0 {
					return fmt.Errorf("%+v", st)
				}
				return nil
			})
			before := remaining(t, g, c)
			// A paused server decides later what it was sent before the breaker opened.
			if before > 1000-n || before < 1000-n-20 {
				t.Errorf("%d remain of 1000 after %d", before, n)
			}
		})
	}
}

// TestNeverThere: a replica that starts while nobody listens, or nobody answers, decides at once by its part.
func TestNeverThere(t *testing.T) {
	for name, address := range map[string]string{"refused": "redis://127.0.0.1:1", "silent": "redis://" + silentListener(t)} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, address, nil)
			c := newCharge(t, "api", "k", "100/1000h", 1)
			all := g.ask(c, 4, 500*time.Millisecond)
			if d := slowest(all); d > 3*deadline && !raceDetector {
				t.Errorf("one waited %v", d)
			}
			for _, x := range all {
				if x.from != tidegate.SourceFallback {
					t.Fatalf("%+v", x)
				}
			}
		})
	}
}

// TestCrowdAtABlackHole: of a thousand that come at once each waits for the deadline once.
func TestCrowdAtABlackHole(t *testing.T) {
	srv := redistest.StartTCP(t)
	r := newRelay(t, srv.Addr)
	g := guard(t, "redis://"+r.listener.Addr().String(), nil)
	c := newCharge(t, "api", "k", "1000000/s", 1)
	mustTake(t, g, c)
	g.returns(c)
	nothing := ""
	r.answer.Store(&nothing)
	for round, most := range []time.Duration{4 * deadline, deadline} {
		var worst atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				start := time.Now()
				mustTake(t, g, c)
				worst.Store(max(worst.Load(), int64(time.Since(start))))
			})
		}
		wg.Wait()
		if d := time.Duration(worst.Load()); d > most && !raceDetector {
			t.Errorf("round %d: one waited %v", round, d)
		}
	}
}

// TestOneConnection: five hundred callers with one connection are all decided, and none waits long.
func TestOneConnection(t *testing.T) {
	g := guard(t, redistest.StartTCP(t).URL(), &Config{PoolSize: 1})
	c := newCharge(t, "api", "k", "1000000/s", 1)
	mustTake(t, g, c)
	g.returns(c)
	all := g.ask(c, 500, 500*time.Millisecond)
	if d := slowest(all); d > 4*deadline && !raceDetector {
		t.Errorf("one waited %v", d)
	}
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

// TestEviction: a server that evicts decides on, whatever goes.
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
}

// TestClusterLosesANode: callers get decisions throughout, and the store decides again when the node is back.
func TestClusterLosesANode(t *testing.T) {
	clu := redistest.StartCluster(t)
	g := guard(t, clu.URL(), nil)
	c := newCharge(t, "api", "k", "100000/s burst 1000", 1)
	g.returns(c)
	clu.Nodes[1].Kill()
	all := g.ask(c, 8, 1500*time.Millisecond)
	if d := slowest(all); d > 4*deadline && !raceDetector {
		t.Errorf("one waited %v", d)
	}
	clu.Nodes[1].Restart()
	clu.Wait(t)
	eventually(t, 20*time.Second, "the store decides again", func() error {
		for i := range 4 {
			c.Key = fmt.Sprint("k", i)
			if from := g.source(c); from != tidegate.SourceStore {
				return fmt.Errorf("%v: %v, %+v", c.Key, from, g.Status())
			}
		}
		return nil
	})
}
