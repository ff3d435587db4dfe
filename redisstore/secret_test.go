package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// wordHook keeps all that a store sends.
type wordHook struct {
	mu   sync.Mutex
	sent strings.Builder
}

func (h *wordHook) add(cmds ...redis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range cmds {
		fmt.Fprintln(&h.sent, c.Args()...)
	}
}

func (h *wordHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *wordHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.add(cmd)
		return next(ctx, cmd)
	}
}

func (h *wordHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.add(cmds...)
		return next(ctx, cmds)
	}
}

// contents returns the keys of a server and what they hold.
func contents(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	var b strings.Builder
	for _, key := range storedKeys(t, srv, "*") {
		read := []string{"GET", key}
		switch command(t, srv, "TYPE", key) {
		case "list":
			read = []string{"LRANGE", key, "0", "-1"}
		case "zset":
			read = []string{"ZRANGE", key, "0", "-1"}
		}
		fmt.Fprintln(&b, key, command(t, srv, read...))
	}
	return b.String()
}

// TestKeySecret: with a secret, neither rule, key nor slot is sent to Redis in any form.
func TestKeySecret(t *testing.T) {
	srv := redistest.Start(t)
	ctx := context.Background()
	secret := []byte("sixteen bytes at least")
	words := []string{"ruleword", "keyword", "slotword"}
	var hook wordHook
	open := func(secret []byte) *Store {
		return openStore(t, srv.URL(), &Config{
			KeySecret: secret, Hooks: []redis.Hook{&hook},
			Slot: func(c *tidegate.Charge) string { return "slotword" + c.Key },
		})
	}
	s := open(secret)
	secret[0]++ // the store has its own
	same, other, none := open([]byte("sixteen bytes at least")), open([]byte("another secret, as long")), open(nil)

	charges := func(key string, cost int64) (all []tidegate.Charge) {
		for _, k := range kinds {
			c := newCharge(t, "ruleword "+k.name, key, k.limit, cost)
			if c.ID != "" {
				c.ID = "permit"
			}
			all = append(all, c)
		}
		return all
	}
	for _, key := range []string{"keyword", "", strings.Repeat("keyword", 100)} {
		for _, c := range charges(key, 3) {
			mustTake(t, s, c)
			for name, n := range map[string]int64{"the same": remaining(t, same, c), "another": remaining(t, other, c)} {
				want := map[string]int64{"the same": 7, "another": 10}[name]
				if strings.Contains(c.Rule, "warm-up") {
					want = 0
				}
				if n != want {
					t.Errorf("%s, %s secret: %d remain, not %d", c.Rule, name, n, want)
				}
			}
		}
	}
	reserved := newCharge(t, "ruleword", "keyword", "10/1000h", 1)
	reserved.ID, reserved.Hold = "reservation", time.Hour
	mustTake(t, s, reserved)
	if err := other.Settle(ctx, "reservation", []tidegate.Charge{reserved}, 0); err == nil {
		t.Error("another secret settles the reservation")
	}
	if err := same.Settle(ctx, "reservation", []tidegate.Charge{reserved}, 5); err != nil {
		t.Error(err)
	}
	if n := remaining(t, s, reserved); n != 5 {
		t.Errorf("%d remain, not 5", n)
	}
	hidden := map[string]string{"the server holds": contents(t, srv), "the server was sent": hook.sent.String()}
	for where, text := range hidden {
		if len(text) < 1000 {
			t.Errorf("%s %q", where, text)
		}
		for _, word := range words {
			if strings.Contains(text, word) {
				t.Errorf("%s the word %q", where, word)
			}
		}
	}
	for _, c := range charges("keyword", 1) {
		mustTake(t, none, c)
		if err := s.Reset(ctx, []tidegate.Charge{c}); err != nil {
			t.Error(err)
		}
	}
	if text := contents(t, srv); !strings.Contains(text, "ruleword") || !strings.Contains(text, "keyword") {
		t.Error("without a secret, the words do not show, so that this test is none")
	}
}

// TestPrefix: stores with prefixes of their own share a server and no bucket, and each writes under its own.
func TestPrefix(t *testing.T) {
	srv := redistest.Start(t)
	byPrefix := map[string]*Store{}
	for _, prefix := range []string{"tidegate:", "a:", "b", "*?[x]:", "préfixe:", "tidegate:x:"} {
		byPrefix[prefix] = openStore(t, srv.URL(), &Config{Prefix: prefix})
	}
	byPrefix[""] = openStore(t, srv.URL(), nil)
	delete(byPrefix, "tidegate:") // which is the default
	c := newCharge(t, "prefix", "k", "10/1000h", 3)
	c.ID, c.Hold = "id", time.Hour
	for prefix, s := range byPrefix {
		if d := mustTake(t, s, c)[0]; d.Remaining != 7 {
			t.Errorf("%q: %+v", prefix, d)
		}
	}
	keys := storedKeys(t, srv, "*")
	if len(keys) != 2*len(byPrefix) {
		t.Errorf("the server holds %q", keys)
	}
	for prefix := range byPrefix {
		if prefix == "" {
			prefix = "tidegate:"
		}
		n := 0
		for _, k := range keys {
			if strings.HasPrefix(k, prefix+"{") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d keys begin with %q: %q", n, prefix, keys)
		}
	}
}

// TestHostileKeys: any bytes are a key, and no two are one.
func TestHostileKeys(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	keys := []string{
		"", " ", "a", "a ", "a\r\nSET x 1\r\n", "a\x00", "{a}", "{", "}", "a/b", "a%2Fb", "%", "%!x", "%~", "%#", "ключ", "\xff\xfe",
		strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("x", 100_000), strings.Repeat("é", 300),
	}
	rules := []string{"", "r", "r/a", "r%2Fa", "{r}", "r\n", strings.Repeat("r", 300)}
	for _, rule := range rules {
		for _, key := range keys {
			c := newCharge(t, rule, key, "10/1000h", 1)
			for i := range int64(2) {
				if d := mustTake(t, s, c)[0]; d.Remaining != 9-i {
					t.Errorf("rule %.20q, key %.20q, take %d: %+v", rule, key, i, d)
				}
			}
		}
	}
	stored := storedKeys(t, srv, "*")
	if len(stored) != len(rules)*len(keys) {
		t.Errorf("%d rules and %d keys make %d buckets", len(rules), len(keys), len(stored))
	}
	for _, k := range stored {
		if len(k) > 300 || strings.ContainsAny(k, " \r\n\x00") || strings.Index(k, "{") != len("tidegate:") {
			t.Errorf("the key %.300q", k)
		}
	}
}
