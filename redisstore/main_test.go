package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs to stderr what these tests do on purpose
	goleak.VerifyTestMain(m)
}

type silent struct{}

// clientLines counts what it would have logged.
var clientLines atomic.Int64

func (silent) Printf(context.Context, string, ...any) { clientLines.Add(1) }

// kind is a limit of one way to count; all have a capacity of 10.
type kind struct{ name, limit string }

// kinds are all ways to count, with periods so long that no test sees one end.
var kinds = []kind{
	{"token bucket", "10/1000h"},
	{"leaky bucket", "10/1000h leaky-bucket queue 9"},
	{"warm-up", "10/1000h warmup 8s"},
	{"fixed window", "10/9000h fixed-window"},
	{"calendar", "10/year tz Europe/Vienna fixed-window"},
	{"sliding window", "10/9000h sliding-window"},
	{"slices", "10/9000h sliding-window slices 5"},
	{"sliding log", "10/9000h sliding-log"},
	{"permits", "10 concurrent ttl 1h"},
}

// cold reports whether the first sight of a bucket finds it empty.
func (k kind) cold() bool { return strings.Contains(k.limit, "warmup") }

// openStore returns a store that asks the server every time, and closes it with the test. With openCached it does not
// where the denied cache knows.
func openStore(tb testing.TB, url string, cfg *Config) *Store {
	tb.Helper()
	own := Config{}
	if cfg != nil {
		own = *cfg
	}
	own.NoDeniedCache = true
	return openCached(tb, url, &own)
}

func openCached(tb testing.TB, url string, cfg *Config) *Store {
	tb.Helper()
	s, err := Open(url, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// storeOn returns a store made of a client, and closes both with the test.
func storeOn(tb testing.TB, client redis.UniversalClient, cfg *Config) *Store {
	tb.Helper()
	own := Config{NoDeniedCache: true}
	if cfg != nil {
		own = *cfg
		own.NoDeniedCache = true
	}
	s, err := New(client, &own)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

func parseLimit(tb testing.TB, text string) *tidegate.Limit {
	tb.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	return &l
}

// newCharge returns a charge of a cost on a bucket; one that takes permits has an ID.
func newCharge(tb testing.TB, rule, key, limit string, cost int64) tidegate.Charge {
	tb.Helper()
	c := tidegate.Charge{Rule: rule, Key: key, Limit: parseLimit(tb, limit), Cost: cost}
	if c.Limit.Algorithm == tidegate.Concurrency && cost > 0 {
		c.ID = rand.Text()
	}
	return c
}

// mustTake returns the decisions of a take that must be one.
func mustTake(tb testing.TB, s tidegate.Store, charges ...tidegate.Charge) []tidegate.Decision {
	tb.Helper()
	ds, err := s.Take(context.Background(), charges, nil)
	if err != nil {
		tb.Fatalf("take: %v", err)
	}
	return ds
}

// remaining peeks at the bucket of a charge.
func remaining(tb testing.TB, s tidegate.Store, c tidegate.Charge) int64 {
	tb.Helper()
	c.Cost, c.ID, c.MaxWait, c.Shadow = 0, "", 0, false
	return mustTake(tb, s, c)[0].Remaining
}

// eventually calls f until it returns nil, and fails the test when that takes too long.
func eventually(tb testing.TB, within time.Duration, what string, f func() error) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			tb.Fatalf("%s: not within %v: %v", what, within, err)
		}
	}
}

// command sends a server a command over a connection of its own.
func command(tb testing.TB, srv *redistest.Server, args ...string) any {
	tb.Helper()
	reply, err := srv.Do(args...)
	if err != nil {
		tb.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// storedKeys returns the keys of a server that match the pattern.
func storedKeys(tb testing.TB, srv *redistest.Server, pattern string) []string {
	tb.Helper()
	list, _ := command(tb, srv, "KEYS", pattern).([]any)
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = fmt.Sprint(list[i])
	}
	return keys
}

// onlyKey returns the key that is all that the server holds.
func onlyKey(tb testing.TB, srv *redistest.Server) string {
	tb.Helper()
	keys := storedKeys(tb, srv, "*")
	if len(keys) != 1 {
		tb.Fatalf("the server holds %q, not one key", keys)
	}
	return keys[0]
}

// commandStats returns how often a server was sent each command, those inside scripts included.
func commandStats(tb testing.TB, srv *redistest.Server) map[string]int {
	tb.Helper()
	text, _ := command(tb, srv, "INFO", "commandstats").(string)
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(digits)
		if err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		stats[name] = n
	}
	return stats
}

// moreCalls returns the commands that were called more often than before, the INFO of the last count left out.
func moreCalls(before, after map[string]int) map[string]int {
	more := map[string]int{}
	for name, n := range after {
		if name == "info" {
			n--
		}
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}
