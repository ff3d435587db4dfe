package redisstore

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]redis.Options{
		"redis://":                         {Addr: "localhost:6379"},
		"redis://:6380":                    {Addr: "localhost:6380"},
		"redis://db.example":               {Addr: "db.example:6379"},
		"redis://db.example:7000/":         {Addr: "db.example:7000"},
		"redis://db.example:7000/5":        {Addr: "db.example:7000", DB: 5},
		"redis://db.example:7000?db=5":     {Addr: "db.example:7000", DB: 5},
		"redis://[::1]":                    {Addr: "[::1]:6379"},
		"redis://[2001:db8::1]:7000/2":     {Addr: "[2001:db8::1]:7000", DB: 2},
		"redis://:pw@h":                    {Addr: "h:6379", Password: "pw"},
		"redis://u:pw@h":                   {Addr: "h:6379", Username: "u", Password: "pw"},
		"redis://u@h":                      {Addr: "h:6379", Username: "u"},
		"redis://u%40x:p%40%2F%3F%23%25@h": {Addr: "h:6379", Username: "u@x", Password: "p@/?#%"},
		"redis://u:p@ss:word@h:1":          {Addr: "h:1", Username: "u", Password: "p@ss:word"},
		"redis://h?pool_size=7&client_name=me&min_idle_conns=0": {Addr: "h:6379", PoolSize: 7, ClientName: "me"},
		"unix:///tmp/r.sock":          {Network: "unix", Addr: "/tmp/r.sock"},
		"unix://u:pw@/tmp/r@x?db=3":   {Network: "unix", Addr: "/tmp/r@x", Username: "u", Password: "pw", DB: 3},
		"rediss://secure.example/1":   {Addr: "secure.example:6379", DB: 1},
		"rediss://h?skip_verify=true": {Addr: "h:6379"},
		"redis://h?max_retries=9&dial_timeout=1h&read_timeout=1h&write_timeout=-1&pool_timeout=1h": {Addr: "h:6379"},
	} {
		t.Run(text, func(t *testing.T) {
			s := openStore(t, text, &Config{Timeout: 77 * time.Millisecond})
			o := s.client.(*redis.Client).Options()
			wantSafe(t, o.MaxRetries, o.ContextTimeoutEnabled, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
			network := want.Network
			if network == "" {
				network = "tcp"
			}
			if o.Network != network || o.Addr != want.Addr || o.DB != want.DB || o.Username != want.Username || o.Password != want.Password {
				t.Errorf("%s %s, database %d, %q with %q", o.Network, o.Addr, o.DB, o.Username, o.Password)
			}
			if want.PoolSize > 0 && o.PoolSize != want.PoolSize || o.ClientName != want.ClientName {
				t.Errorf("%d connections of %q", o.PoolSize, o.ClientName)
			}
			if secure := strings.HasPrefix(text, "rediss:"); secure != (o.TLSConfig != nil) {
				t.Errorf("TLS: %v", o.TLSConfig != nil)
			}
		})
	}
}

func TestClusterURL(t *testing.T) {
	for text, want := range map[string]redis.ClusterOptions{
		"redis+cluster://a:1,b:2,c:3":             {Addrs: []string{"a:1", "b:2", "c:3"}},
		"redis+cluster://a,b:2,c":                 {Addrs: []string{"a:6379", "b:2", "c:6379"}},
		"redis+cluster://a":                       {Addrs: []string{"a:6379"}},
		"redis+cluster://u:p%40ss@a:1,b:2/":       {Addrs: []string{"a:1", "b:2"}, Username: "u", Password: "p@ss"},
		"redis+cluster://[::1]:1,[2001:db8::2],c": {Addrs: []string{"[::1]:1", "[2001:db8::2]:6379", "c:6379"}},
		"redis+cluster://a:1,b:2?addr=c:3":        {Addrs: []string{"a:1", "b:2", "c:3"}},
		"rediss+cluster://a:1,b:2":                {Addrs: []string{"a:1", "b:2"}},
		"redis+cluster://a?pool_size=3":           {Addrs: []string{"a:6379"}, PoolSize: 3},
		"redis+cluster://a?read_only=true":        {Addrs: []string{"a:6379"}},
		"redis+cluster://a?route_by_latency=true": {Addrs: []string{"a:6379"}},
		"redis+cluster://a?route_randomly=true":   {Addrs: []string{"a:6379"}},
		"redis+cluster://a?max_retries=3":         {Addrs: []string{"a:6379"}},
	} {
		t.Run(text, func(t *testing.T) {
			s := openStore(t, text, &Config{Timeout: 77 * time.Millisecond})
			o := s.client.(*redis.ClusterClient).Options()
			wantSafe(t, o.MaxRetries, o.ContextTimeoutEnabled, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
			if !slices.Equal(o.Addrs, want.Addrs) || o.Username != want.Username || o.Password != want.Password {
				t.Errorf("%q, %q with %q", o.Addrs, o.Username, o.Password)
			}
			if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
				t.Error("replicas may be asked")
			}
			if want.PoolSize > 0 && o.PoolSize != want.PoolSize {
				t.Errorf("%d connections", o.PoolSize)
			}
			if secure := strings.HasPrefix(text, "rediss"); secure != (o.TLSConfig != nil) {
				t.Errorf("TLS: %v", o.TLSConfig != nil)
			}
		})
	}
}

func TestSentinelURL(t *testing.T) {
	for text, want := range map[string]redis.Options{
		"redis+sentinel://a:1,b:2/main":                       {},
		"redis+sentinel://a,b,[::1]/main/":                    {},
		"redis+sentinel://a:1,b/main/4":                       {DB: 4},
		"redis+sentinel://a/main?db=4":                        {DB: 4},
		"redis+sentinel://u:p%2Fw@a/main/1":                   {DB: 1, Username: "u", Password: "p/w"},
		"redis+sentinel://:pw@a/main":                         {Password: "pw"},
		"redis+sentinel://su:sp@a/main?username=u&password=p": {Username: "u", Password: "p"}, // the first are the sentinels'
		"redis+sentinel://a/m%20n":                            {},
		"rediss+sentinel://a/main":                            {},
		"redis+sentinel://a/main?replica_only=true&route_by_latency=true&route_randomly=true": {},
		"redis+sentinel://a/main?master_name=other&max_retries=8&context_timeout_enabled=0":   {},
	} {
		t.Run(text, func(t *testing.T) {
			s := openStore(t, text, &Config{Timeout: 77 * time.Millisecond})
			o := s.client.(*redis.Client).Options()
			wantSafe(t, o.MaxRetries, o.ContextTimeoutEnabled, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
			if o.Addr != "FailoverClient" || o.DB != want.DB || o.Username != want.Username || o.Password != want.Password {
				t.Errorf("%s, database %d, %q with %q", o.Addr, o.DB, o.Username, o.Password)
			}
			if secure := strings.HasPrefix(text, "rediss"); secure != (o.TLSConfig != nil) {
				t.Errorf("TLS: %v", o.TLSConfig != nil)
			}
		})
	}
}

// TestSentinelPort: a sentinel's default port is its own; a client does not tell whom it will ask.
func TestSentinelPort(t *testing.T) {
	addrs, err := addresses("a,[::1],b:7", "26379", true)
	if want := []string{"a:26379", "[::1]:26379", "b:7"}; err != nil || !slices.Equal(addrs, want) {
		t.Errorf("%q, %v; it should be %q", addrs, err, want)
	}
}

// wantSafe fails the test unless a client's options keep it from charging twice and from outliving a deadline.
func wantSafe(t *testing.T, retries int, contexts bool, timeouts ...time.Duration) {
	t.Helper()
	if retries > 0 {
		t.Errorf("it would try %d times more", retries)
	}
	if !contexts {
		t.Error("deadlines do not reach the socket")
	}
	for _, d := range timeouts {
		if d != 77*time.Millisecond {
			t.Errorf("the timeouts are %v", timeouts)
		}
	}
}

// wantBadURL fails the test unless the URL is refused, right ones are shown, and nothing of the password is.
func wantBadURL(t *testing.T, text string) error {
	t.Helper()
	s, err := Open(text, nil)
	if err == nil {
		s.Close()
		t.Fatal("it was accepted")
	}
	msg := err.Error()
	for _, part := range []string{"redis://", "unix:///", "redis+cluster://", "redis+sentinel://"} {
		if !strings.Contains(msg, part) {
			t.Errorf("it does not show %s: %s", part, msg)
		}
	}
	for _, part := range []string{"s3cr3t", "w0rd", "h1dden"} {
		if strings.Contains(msg, part) {
			t.Errorf("it shows the password: %s", msg)
		}
	}
	if strings.Contains(msg, "\n") || len(msg) > 400 {
		t.Errorf("it is long: %s", msg)
	}
	return err
}

func TestBadURL(t *testing.T) {
	for text, says := range map[string]string{
		"":                                       "",
		"localhost:6379":                         "://",
		"127.0.0.1:6379":                         "://",
		"redis:localhost:6379":                   "://",
		"redis:/localhost":                       "://",
		"http://localhost":                       "scheme",
		"memory://":                              "scheme",
		"rediss+unix:///tmp/x":                   "scheme",
		"unix+cluster:///tmp/x":                  "scheme",
		"Redis+cluster+sentinel://a":             "scheme",
		"redis://h:port":                         "port",
		"redis://h:0":                            "port",
		"redis://h:65536":                        "port",
		"redis://h:-1":                           "port",
		"redis://h:":                             "port",
		"redis://::1":                            "brackets",
		"redis://[::1":                           "brackets",
		"redis://h/x":                            "database",
		"redis://h/1/2":                          "path",
		"redis://h/-1":                           "database",
		"redis://h?colour=red":                   "colour",
		"redis://h?pool_size=many":               "pool_size",
		"redis://a:1,b:2":                        "cluster",
		"redis://h#1":                            "#",
		"unix://":                                "path",
		"unix://tmp/r.sock":                      "third /",
		"unix:///tmp/r.sock?db=x":                "database",
		"redis+cluster://":                       "no host",
		"redis+cluster://a:1,,b:2":               "no host",
		"redis+cluster://a:1,b:x":                "port",
		"redis+cluster://a:1,":                   "no host",
		"redis+cluster://a:1/3":                  "database",
		"redis+cluster://a:1?db=3":               "db",
		"redis+sentinel://a:1":                   "master",
		"redis+sentinel://a:1/":                  "master",
		"redis+sentinel://a:1/main/x":            "database",
		"redis+sentinel://a:1/main/1/2":          "path",
		"redis+sentinel:///main":                 "no host",
		"redis+sentinel://a:1/main/-1":           "database",
		"redis+sentinel://a:1/main?addr=nowhere": "addr",
		"redis://user:s3cr3t@h:x":                "port",
		"redis://user:s3cr3t@h/x":                "database",
		"redis://user:s3cr3t@h?colour=red":       "colour",
		"redis://h?password=s3cr3t":              "password",
		"redis://user:s3cr3t/w0rd@h":             "%2F",
		"redis://user:s3cr3t?w0rd@h":             "%3F",
		"redis://user:s3cr3t#w0rd@h":             "%23",
		"redis://user:12/w0rd@h":                 "%2F",
		"redis://user:12?w0rd@h":                 "%3F",
		"redis://:12#w0rd@h":                     "%23",
		"redis://user:s3cr3t%w0rd@h":             "%25",
		"redis://user:%zzw0rd@h":                 "%25",
		"redis://user:s3cr3t@w0rd/h1dden@h":      "%2F",
		"redis+cluster://u:s3cr3t@a:1,b:x":       "port",
		"redis+cluster://u:s3cr3t@a:1/7":         "database",
		"redis+sentinel://u:s3cr3t@a:1":          "master",
		"redis+sentinel://u:s3cr3t@a:1/main/x":   "database",
		"redis+sentinel://a:1/main/x?username=u&password=s3cr3t":    "database",
		"redis+sentinel://x:h1dden@a:1/main?password=s3cr3t&nope=1": "nope",
		"user:s3cr3t@h:6379":                        "://",
		"unix://:s3cr3t@tmp/r.sock":                 "third /",
		"unix://:s3cr3t@/tmp/r.sock?db=x":           "database",
		"http://user:s3cr3t@h":                      "scheme",
		"redis://user:s3cr3t@" + "\x7f" + "h":       "",
		"redis://h/\x00":                            "",
		"redis+cluster://user:s3cr3t@[::1]:1,::2:1": "brackets",
	} {
		t.Run(text, func(t *testing.T) {
			if err := wantBadURL(t, text); !strings.Contains(err.Error(), says) {
				t.Errorf("it does not say %q: %v", says, err)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"prefix with a space":         {Prefix: "a b:"},
		"prefix with braces":          {Prefix: "{a}:"},
		"prefix with a brace":         {Prefix: "a}"},
		"prefix that opens a brace":   {Prefix: "a{"},
		"prefix with a line end":      {Prefix: "a\n"},
		"prefix with a DEL":           {Prefix: "a\x7f"},
		"prefix with a hidden letter": {Prefix: "a\u200b"},
		"short secret":                {KeySecret: []byte("fifteen bytes..")},
		"empty secret":                {KeySecret: []byte{}},
		"negative timeout":            {Timeout: -1},
		"negative pool":               {PoolSize: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Open("redis://localhost", cfg); err == nil {
				s.Close()
				t.Error("it was accepted by Open")
			} else if !strings.HasPrefix(err.Error(), "redisstore: ") {
				t.Error(err)
			}
			client := redis.NewClient(&redis.Options{})
			defer client.Close()
			if s, err := New(client, cfg); err == nil {
				s.Close()
				t.Error("it was accepted by New")
			}
		})
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("New without a client")
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})
	defer ring.Close()
	if _, err := New(ring, nil); err == nil || !strings.Contains(err.Error(), "*redis.Ring") {
		t.Errorf("New with a ring: %v", err)
	}
}

// TestOptionsOfAClient: a store takes a client's options, but for those that are not safe, and leaves the client as it is.
func TestOptionsOfAClient(t *testing.T) {
	cfg := &Config{Timeout: 77 * time.Millisecond, PoolSize: 5}
	dialer := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	options := redis.Options{
		Addr: "h:1", Username: "u", Password: "p", DB: 3, MaxRetries: 4, DialTimeout: time.Hour, ReadTimeout: -1, Dialer: dialer,
		ClientName: "me", PoolSize: 99,
	}
	client := redis.NewClient(&options)
	s := storeOn(t, client, cfg)
	o := s.client.(*redis.Client).Options()
	wantSafe(t, o.MaxRetries, o.ContextTimeoutEnabled, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
	if o.Addr != "h:1" || o.Username != "u" || o.Password != "p" || o.DB != 3 || o.ClientName != "me" || o.PoolSize != 5 {
		t.Errorf("%+v", o)
	}
	if was := client.Options(); was.MaxRetries != 4 || was.ContextTimeoutEnabled || was.PoolSize != 99 || was.DialTimeout != time.Hour {
		t.Errorf("the client was changed: %+v", was)
	}
	if same := storeOn(t, redis.NewClient(&options), nil).client.(*redis.Client).Options(); same.PoolSize != 99 {
		t.Errorf("%d connections, not the client's 99", same.PoolSize)
	}

	many := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"h:1", "h:2"}, MaxRetries: 4, ReadOnly: true, RouteByLatency: true, Username: "u", Password: "p", ReadTimeout: time.Hour,
	})
	co := storeOn(t, many, cfg).client.(*redis.ClusterClient).Options()
	wantSafe(t, co.MaxRetries, co.ContextTimeoutEnabled, co.DialTimeout, co.ReadTimeout, co.WriteTimeout, co.PoolTimeout)
	if !slices.Equal(co.Addrs, []string{"h:1", "h:2"}) || co.Username != "u" || co.Password != "p" || co.ReadOnly || co.RouteByLatency || co.PoolSize != 5 {
		t.Errorf("%+v", co)
	}
	if was := many.Options(); was.MaxRetries != 4 || !was.ReadOnly {
		t.Errorf("the client was changed: %+v", was)
	}

	watched := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}, MaxRetries: 4, DB: 2})
	fo := storeOn(t, watched, cfg).client.(*redis.Client).Options()
	wantSafe(t, fo.MaxRetries, fo.ContextTimeoutEnabled, fo.DialTimeout, fo.ReadTimeout, fo.WriteTimeout, fo.PoolTimeout)
	if fo.DB != 2 || fo.PoolSize != 5 {
		t.Errorf("%+v", fo)
	}
}

// TestURLReachesTheDatabase: what a URL says is what the server sees.
func TestURLReachesTheDatabase(t *testing.T) {
	const special = "s3cr3t/?#@% word"
	srv := redistest.StartTCP(t, "--requirepass", special)
	for _, u := range []string{srv.URL() + "/5", srv.URL() + "?db=5"} {
		s := openStore(t, u, nil)
		mustTake(t, s, newCharge(t, "database", "k", "10/1000h", 1))
	}
	if text, _ := command(t, srv, "INFO", "keyspace").(string); !strings.Contains(text, "db5:keys=1,") || strings.Contains(text, "db0:") {
		t.Errorf("the server holds %s", text)
	}
}

// TestClosedStore: a store that was closed says so, and closes nothing twice nor the client that it was made of.
func TestClosedStore(t *testing.T) {
	srv := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Addr})
	defer client.Close()
	s := storeOn(t, client, nil)
	c := newCharge(t, "closed", "k", "10/1000h", 1)
	mustTake(t, s, c)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Now(context.Background())
	wantStoreError(t, err)
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Errorf("the client: %v", err)
	}
}
