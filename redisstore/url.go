package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const urlForms = "write redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/MASTER"

// connect makes a client of a URL; it does not connect yet.
//
//	redis://[user:password@]host:port[/db]                     one server; rediss: with TLS
//	unix://[user:password@]/path/to.sock[?db=0]                one server on a socket
//	redis+cluster://[user:password@]host:port[,host:port…]     a cluster; rediss+cluster: with TLS
//	redis+sentinel://[user:password@]host:port[,host:port…]/master[/db]   sentinels and the name of what they watch
//
// The options of go-redis's URLs may follow as a query.
func connect(text string, cfg *Config) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse repeats the URL, and with it the password.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("redisstore: the URL cannot be read (%w): %s", err, urlForms)
	}
	switch u.Scheme {
	case "redis", "rediss", "unix":
		o, err := redis.ParseURL(text)
		if err != nil {
			return nil, badURL(u, err)
		}
		return single(o, cfg), nil
	case "redis+cluster", "rediss+cluster":
		u.Scheme = strings.TrimSuffix(u.Scheme, "+cluster")
		o, err := redis.ParseClusterURL(first(u))
		if err != nil {
			return nil, badURL(u, err)
		}
		o.Addrs = hosts(u)
		return cluster(o, cfg), nil
	case "redis+sentinel", "rediss+sentinel":
		u.Scheme = strings.TrimSuffix(u.Scheme, "+sentinel")
		master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
		if master == "" {
			return nil, badURL(u, errors.New("the name of the master is missing"))
		}
		u.Path = "/" + db
		q := u.Query()
		q.Set("master_name", master)
		if u.User != nil && !q.Has("username") && !q.Has("password") {
			password, _ := u.User.Password()
			q.Set("username", u.User.Username())
			q.Set("password", password)
			u.User = nil
		}
		u.RawQuery = q.Encode()
		o, err := redis.ParseFailoverURL(first(u))
		if err != nil {
			return nil, badURL(u, err)
		}
		o.SentinelAddrs = hosts(u)
		return sentinel(o, cfg), nil
	}
	return nil, badURL(u, fmt.Errorf("the scheme %q is unknown", u.Scheme))
}

// badURL names the URL without its password.
func badURL(u *url.URL, err error) error {
	return fmt.Errorf("redisstore: %s: %w: %s", u.Redacted(), err, urlForms)
}

// hosts returns the addresses of a URL that lists several, with the default port where one has none.
func hosts(u *url.URL) []string {
	list := strings.Split(u.Host, ",")
	for i, h := range list {
		if !strings.Contains(strings.TrimPrefix(h[strings.LastIndexByte(h, ']')+1:], "]"), ":") {
			port := "6379"
			if u.Query().Has("master_name") {
				port = "26379"
			}
			list[i] = h + ":" + port
		}
	}
	return list
}

// first returns the URL with the first of its addresses alone, which is all that go-redis reads.
func first(u *url.URL) string {
	v := *u
	v.Host = hosts(u)[0]
	return v.String()
}

// The options that every client has, whatever it was made from: nothing is retried behind our back, for a command that
// timed out may have charged; the caller's deadline reaches the socket; and nothing is said to the server that old ones
// do not know.

func single(o *redis.Options, cfg *Config) *redis.Client {
	own := *o
	own.MaxRetries = -1
	own.ContextTimeoutEnabled = true
	own.DialerRetries = 1
	own.DisableIdentity = true
	own.MaintNotificationsConfig = noNotifications()
	timeouts(&own.DialTimeout, &own.ReadTimeout, &own.WriteTimeout, &own.PoolTimeout, cfg.Timeout)
	if cfg.PoolSize > 0 {
		own.PoolSize = cfg.PoolSize
	}
	return redis.NewClient(&own)
}

func cluster(o *redis.ClusterOptions, cfg *Config) *redis.ClusterClient {
	own := *o
	own.MaxRetries = -1
	own.ContextTimeoutEnabled = true
	own.DialerRetries = 1
	own.DisableIdentity = true
	own.DisableRoutingPolicies = true
	own.ReadOnly, own.RouteByLatency, own.RouteRandomly = false, false, false
	own.MaintNotificationsConfig = noNotifications()
	timeouts(&own.DialTimeout, &own.ReadTimeout, &own.WriteTimeout, &own.PoolTimeout, cfg.Timeout)
	if cfg.PoolSize > 0 {
		own.PoolSize = cfg.PoolSize
	}
	return redis.NewClusterClient(&own)
}

func sentinel(o *redis.FailoverOptions, cfg *Config) *redis.Client {
	own := *o
	own.MaxRetries = -1
	own.ContextTimeoutEnabled = true
	own.DialerRetries = 1
	own.DisableIdentity = true
	timeouts(&own.DialTimeout, &own.ReadTimeout, &own.WriteTimeout, &own.PoolTimeout, cfg.Timeout)
	if cfg.PoolSize > 0 {
		own.PoolSize = cfg.PoolSize
	}
	return redis.NewFailoverClient(&own)
}

// timeouts bounds each step by the timeout; the call as a whole is bounded by its context.
func timeouts(dial, read, write, pool *time.Duration, timeout time.Duration) {
	*dial, *read, *write, *pool = timeout, timeout, timeout, timeout
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
