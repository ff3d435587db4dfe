package redisstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/rules/source"
)

// commandsUsed are the commands that a server may be sent, scripts included, each with the version of Redis that brought
// it, or what is used of it. It is the list of docs/architecture.md.
var commandsUsed = map[string]string{
	// Connections.
	"hello":         "6.0",
	"auth":          "1.0",
	"select":        "1.0",
	"asking":        "3.0", // cluster
	"cluster|slots": "3.0", // cluster
	// Scripts and what is next to them.
	"evalsha": "2.6",
	"eval":    "2.6",
	"time":    "2.6",
	"del":     "1.0",
	// Within scripts.
	"get":              "1.0",
	"mget":             "1.0",
	"exists":           "1.0",
	"set":              "6.2", // PXAT
	"setrange":         "2.2",
	"type":             "1.0",
	"pexpireat":        "2.6",
	"hget":             "2.0",
	"hgetall":          "2.0",
	"hincrby":          "2.0",
	"hset":             "2.0",
	"hsetnx":           "2.0",
	"lindex":           "1.0",
	"lrange":           "1.0",
	"llen":             "1.0",
	"lset":             "1.0",
	"ltrim":            "1.0",
	"rpush":            "2.4", // several at once
	"zadd":             "1.2",
	"zcard":            "1.2",
	"zcount":           "2.0",
	"zrangebyscore":    "1.0.5",
	"zrem":             "1.2",
	"zremrangebyscore": "1.2",
	"zrevrange":        "1.2",
	"zscore":           "1.2",
}

// driveAll does all that a store can do, with every kind of limit, allowed and refused.
func driveAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	check := func(err error, known ...error) {
		t.Helper()
		if err != nil && !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
			t.Fatal(err)
		}
	}
	if _, err := s.Now(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := s.Beat(ctx, tidegate.Beat{ID: "drive", Marker: "marker", Admitted: map[string]int64{"drive": 1}})
		check(err)
	}
	_, err := s.Beat(ctx, tidegate.Beat{ID: "drive", Marker: "marker", Leave: true})
	check(err)
	for version := int64(source.AnyVersion); version < 1; {
		version, err = s.Rules().Push(ctx, []byte("version: 1"), "drive", version)
		check(err)
	}
	_, err = s.Rules().Push(ctx, []byte("version: 1 # other"), "drive", source.AnyVersion)
	check(err)
	_, err = s.Rules().Pull(ctx)
	check(err)
	_, err = s.Rules().History(ctx)
	check(err)
	for i, k := range kinds {
		take := func(cost int64) tidegate.Charge {
			c := newCharge(t, k.name, "drive", k.limit, cost)
			mustTake(t, s, c)
			return c
		}
		take(0)
		first := take(3)
		take(5)
		take(9)
		take(1 << 40)
		if first.Limit.Algorithm != tidegate.Concurrency {
			take(-2)
		}
		reserved := newCharge(t, k.name, "drive", k.limit, 1)
		reserved.ID, reserved.Hold, reserved.MaxWait = "reserved-"+k.name, time.Hour, time.Second
		_, err := s.Take(ctx, []tidegate.Charge{reserved}, nil)
		check(err, tidegate.ErrUnsupported)
		check(s.Settle(ctx, reserved.ID, []tidegate.Charge{reserved}, int64(i%3)), tidegate.ErrUnknownID)
		check(s.Renew(ctx, first.ID, []tidegate.Charge{first}), tidegate.ErrUnknownID)
		check(s.Release(ctx, first.ID, []tidegate.Charge{first}), tidegate.ErrUnknownID)

		// The bucket of one kind becomes one of every other.
		for _, next := range kinds {
			c := newCharge(t, k.name, "drive", next.limit, 1)
			c.Version = time.Now().UnixMicro()
			mustTake(t, s, c)
			back := newCharge(t, k.name, "drive", k.limit, 1)
			back.Version = time.Now().UnixMicro() + 1
			mustTake(t, s, back)
		}
		check(s.Reset(ctx, []tidegate.Charge{first}))
	}
	several := make([]tidegate.Charge, len(kinds))
	for i, k := range kinds {
		several[i] = newCharge(t, k.name, "several", k.limit, 1)
		several[i].Shadow = i%3 == 0 || k.cold()
		if several[i].ID != "" {
			several[i].ID = "several"
		}
	}
	for range 12 {
		mustTake(t, s, several...)
	}
	check(s.Renew(ctx, "several", several))
	check(s.Release(ctx, "several", several))
	check(s.Reset(ctx, several))
}

// driveRandom does random operations at injected times, clocks that step back among them.
func driveRandom(t *testing.T, url string, operations int) {
	t.Helper()
	p := newPair(t, url, "tidegate:random:")
	g := newGenerator(1, false)
	ops := make([]operation, operations)
	for i := range ops {
		ops[i] = g.next()
	}
	if at, goes, lua := p.differ(ops); at >= 0 {
		t.Fatalf("operation %d: go %s, lua %s", at, goes, lua)
	}
}

func TestCommandsUsed(t *testing.T) {
	for name, version := range commandsUsed {
		if major, rest, _ := strings.Cut(version, "."); major > "6" || major == "6" && rest > "2" {
			t.Errorf("%s came with Redis %s", name, version)
		}
	}
	t.Run("standalone", func(t *testing.T) {
		srv := redistest.StartTCP(t, "--requirepass", "s3cr3t")
		before := commandStats(t, srv)
		driveAll(t, openStore(t, srv.URL()+"/3", nil))
		driveRandom(t, srv.URL(), 4000)
		wantCommands(t, srv, moreCalls(before, commandStats(t, srv)))
	})
	t.Run("cluster", func(t *testing.T) {
		clu := redistest.StartCluster(t)
		s := openStore(t, clu.URL(), nil)
		used := map[string]int{}
		before := map[*redistest.Server]map[string]int{}
		for _, n := range clu.Nodes {
			before[n] = commandStats(t, n)
		}
		driveAll(t, s)
		for _, n := range clu.Nodes {
			maps.Copy(used, moreCalls(before[n], commandStats(t, n)))
		}
		wantCommands(t, clu.Nodes[0], used)
	})
}

// wantCommands fails the test if any of the commands is not one of commandsUsed, or is one that blocks or administers.
func wantCommands(t *testing.T, srv *redistest.Server, used map[string]int) {
	t.Helper()
	delete(used, "info") // the test's own
	if used["evalsha"] == 0 || used["set"] == 0 {
		t.Fatalf("the server tells of %v alone", used)
	}
	names := slices.Sorted(maps.Keys(used))
	t.Logf("used: %s", strings.Join(names, " "))
	for _, name := range names {
		// A server before Redis 7 does not tell subcommands apart.
		if commandsUsed[name] == "" && commandsUsed[name+"|slots"] == "" {
			t.Errorf("%s is not in the list", name)
		}
	}
	// What the server does not know or allow is not counted above. WRONGTYPE is how a script finds out about another kind.
	errs, _ := command(t, srv, "INFO", "errorstats").(string)
	for line := range strings.Lines(errs) {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "errorstat_"), ":")
		if ok && name != "NOSCRIPT" && name != "WRONGTYPE" {
			t.Errorf("the server has answered %s", strings.TrimSpace(line))
		}
	}
	for _, category := range []string{"blocking", "admin"} {
		list, _ := command(t, srv, "ACL", "CAT", category).([]any)
		for _, bad := range list {
			if name, _ := bad.(string); used[name] > 0 {
				t.Errorf("%s is one of the %s commands", name, category)
			}
		}
	}
	for _, bad := range []string{"keys", "config", "config|get", "config|set", "scan", "command", "command|info", "info"} {
		if used[bad] > 0 {
			t.Errorf("%s is used", bad)
		}
	}
}

// TestLeastPrivilege runs everything as a user who may do what is in the list, on our keys, and nothing else.
func TestLeastPrivilege(t *testing.T) {
	srv := redistest.StartTCP(t)
	rule := []string{"ACL", "SETUSER", "tidegate", "on", ">s3cr3t", "~tidegate:*", "-@all"}
	for name := range commandsUsed {
		rule = append(rule, "+"+name)
	}
	command(t, srv, rule...)
	u := url.URL{Scheme: "redis", User: url.UserPassword("tidegate", "s3cr3t"), Host: srv.Addr}
	driveAll(t, openStore(t, u.String(), nil))
	driveRandom(t, u.String(), 1000)
	if log, _ := command(t, srv, "ACL", "LOG").([]any); len(log) > 0 {
		t.Errorf("the server refused: %v", log)
	}
}

// countingHook counts the commands that a client sends.
type countingHook struct{ n atomic.Int64 }

func (h *countingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// counted returns how many commands a client sends during f.
func (h *countingHook) counted(f func()) int64 {
	before := h.n.Load()
	f()
	return h.n.Load() - before
}

func TestOneCommandPerTake(t *testing.T) {
	srv := redistest.Start(t)
	var hook countingHook
	s := openStore(t, srv.URL(), &Config{Hooks: []redis.Hook{&hook}})
	// The scripts are sent whole once.
	mustTake(t, s, newCharge(t, "load", "k", "10/s", 1))
	mustTake(t, s, newCharge(t, "load", "w", "10/s fixed-window", 1))
	mustTake(t, s, newCharge(t, "load", "m", "10/day tz UTC", 1))
	mustTake(t, s, newCharge(t, "load", "c", "10/s warmup 8s", 1))
	mustTake(t, s, newCharge(t, "load", "d", "10/s", 1), newCharge(t, "load", "e", "10/s", 1))

	const takes = 25 // of which the last are refused
	one := func(t *testing.T, charges func(i int) []tidegate.Charge) {
		t.Helper()
		before := commandStats(t, srv)
		sent := hook.counted(func() {
			for i := range takes {
				mustTake(t, s, charges(i)...)
			}
		})
		more := moreCalls(before, commandStats(t, srv))
		if sent != takes || more["evalsha"] != takes || more["eval"] != 0 {
			t.Errorf("%d takes: %d commands sent, the server counted %d evalsha and %d eval", takes, sent, more["evalsha"], more["eval"])
		}
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			one(t, func(int) []tidegate.Charge { return []tidegate.Charge{newCharge(t, k.name, "one", k.limit, 1)} })
		})
	}
	t.Run("costs", func(t *testing.T) { // peeks, refunds and what can never pass
		one(t, func(i int) []tidegate.Charge {
			return []tidegate.Charge{newCharge(t, "costs", "one", "10/h", int64(i%5-2)*10)}
		})
	})
	t.Run("reservations", func(t *testing.T) {
		one(t, func(int) []tidegate.Charge {
			c := newCharge(t, "reservations", "one", "10/s", 3)
			c.MaxWait, c.ID, c.Hold = 5*time.Second, "id", time.Minute
			return []tidegate.Charge{c}
		})
	})
	t.Run("several charges", func(t *testing.T) {
		one(t, func(i int) []tidegate.Charge {
			var all []tidegate.Charge
			for j, k := range kinds {
				c := newCharge(t, "several "+k.name, "one", k.limit, 1)
				c.Shadow = j == i%len(kinds)
				if c.ID != "" {
					c.ID = "permit"
				}
				all = append(all, c)
			}
			return all
		})
	})
	t.Run("several keys", func(t *testing.T) {
		one(t, func(int) []tidegate.Charge {
			return []tidegate.Charge{
				newCharge(t, "tenant", "t", "100/h", 1),
				newCharge(t, "user", "u", "10/h", 1),
				newCharge(t, "global", "", "1000/h", 1),
			}
		})
	})
	t.Run("without a bucket", func(t *testing.T) {
		sent := hook.counted(func() {
			mustTake(t, s, newCharge(t, "open", "k", "unlimited", 1), newCharge(t, "closed", "k", "none", 1))
		})
		if sent != 0 {
			t.Errorf("%d commands sent", sent)
		}
	})
}
