package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const urlForms = "write redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/MASTER"

// connect makes a client of a URL, in one of the forms that [Open] lists; it does not connect yet.
//
// The options of go-redis's URLs may follow as a query; those that single, cluster and sentinel set stay as these do.
func connect(text string, cfg *Config) (redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, badURL(text, errors.New("there is no ://"))
	}
	scheme, kind, _ := strings.Cut(scheme, "+")
	defaultPort := "6379"
	switch {
	case kind == "sentinel" && scheme != "unix":
		defaultPort = "26379"
	case kind != "" && kind != "cluster", kind != "" && scheme == "unix":
		return nil, badURL(text, errors.New("the scheme is unknown"))
	}
	if scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return nil, badURL(text, errors.New("the scheme is unknown"))
	}
	if strings.Contains(rest, "#") {
		return nil, badURL(text, errors.New("there is a #, which begins nothing here"))
	}

	// Only the first address is left for go-redis to read: url.Parse knows no lists.
	end := strings.IndexAny(rest+"/", "/?")
	authority, tail := rest[:end], rest[end:]
	at := strings.LastIndexByte(authority, '@') + 1
	user, list := authority[:at], authority[at:]
	var addrs []string
	if scheme == "unix" {
		if list != "" {
			return nil, badURL(text, errors.New("the path of the socket must begin with a third /"))
		}
	} else {
		var err error
		if addrs, err = addresses(list, defaultPort, kind != ""); err != nil {
			return nil, badURL(text, err)
		}
		list = addrs[0]
	}
	u, err := url.Parse(scheme + "://" + user + list + tail)
	if err != nil {
		// The error of url.Parse repeats the URL, and what is wrong with it may be the password.
		if ue, ok := errors.AsType[*url.Error](err); ok && user == "" {
			err = ue.Err
		} else {
			err = errNotEncoded
		}
		return nil, badURL(text, err)
	}
	client, err := open(u, kind, addrs, cfg)
	if err != nil {
		return nil, badURL(text, err)
	}
	return client, nil
}

// open makes a client of a URL of one address, and the list of all.
func open(u *url.URL, kind string, addrs []string, cfg *Config) (redis.UniversalClient, error) {
	switch kind {
	case "cluster":
		if u.Path != "" && u.Path != "/" && u.Path != "/0" {
			return nil, errors.New("a cluster has no databases")
		}
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, err
		}
		o.Addrs = append(addrs, o.Addrs[1:]...)
		return cluster(o, cfg), nil
	case "sentinel":
		master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
		if master == "" {
			return nil, errors.New("the name of the master is missing")
		}
		u.Path, u.RawPath = "/"+db, ""
		q := u.Query()
		q.Set("master_name", master)
		if u.User != nil && !q.Has("username") && !q.Has("password") {
			password, _ := u.User.Password()
			q.Set("username", u.User.Username())
			q.Set("password", password)
			u.User = nil
		}
		u.RawQuery = q.Encode()
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, err
		}
		if o.DB < 0 {
			return nil, errDB
		}
		o.SentinelAddrs = append(addrs, o.SentinelAddrs[1:]...)
		return sentinel(o, cfg), nil
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	if o.DB < 0 {
		return nil, errDB
	}
	return single(o, cfg), nil
}

// addresses returns the addresses of a comma-separated list, with the default port where one has none.
// Where there need not be several, an address without a host is this machine's.
func addresses(list, defaultPort string, several bool) ([]string, error) {
	addrs := strings.Split(list, ",")
	if len(addrs) > 1 && !several {
		return nil, errors.New("there are several addresses: the scheme should be redis+cluster or redis+sentinel")
	}
	for i, a := range addrs {
		// The port is what follows the last colon, unless that is part of an IPv6 address.
		host, port := a, defaultPort
		if c := strings.LastIndexByte(a, ':'); c > strings.LastIndexByte(a, ']') {
			host, port = a[:c], a[c+1:]
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("a port is not a number from 1 to 65535")
		}
		if bare, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(bare, "]") {
			host = strings.TrimSuffix(bare, "]")
		} else if strings.ContainsAny(host, ":[]") {
			return nil, errors.New("an IPv6 address is written in brackets, as in [::1]:6379")
		}
		if host == "" {
			if several {
				return nil, errors.New("an address has no host")
			}
			host = "localhost"
		}
		addrs[i] = net.JoinHostPort(host, port)
	}
	return addrs, nil
}

var errDB = errors.New("the number of a database is not negative")

var errNotEncoded = errors.New("in a user or a password, @ / ? # and % are written %40 %2F %3F %23 and %25")

// badURL says what is wrong with a URL, and shows it without what is or may be a password.
func badURL(text string, err error) error {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if strings.ContainsAny(rest[:at], "/?#") {
			err = errNotEncoded // and what was read as path, query or port is part of the password
		}
		rest = "xxxxx" + rest[at:]
	}
	if q := strings.IndexAny(rest, "?#"); q >= 0 {
		rest = rest[:q+1] + "…"
	}
	if ok {
		rest = scheme + "://" + rest
	}
	return fmt.Errorf("redisstore: the URL %q: %w: %s", rest, err, urlForms)
}

// The options that every client has, whatever it was made from: nothing is retried behind our back, for a command that
// timed out may have charged; the caller's deadline reaches the socket; replicas are never asked; and nothing is said to
// the server that old ones do not know.

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
	return undaunted(&own)
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
	if own.NewClient == nil {
		own.NewClient = undaunted
	}
	return redis.NewClusterClient(&own)
}

func sentinel(o *redis.FailoverOptions, cfg *Config) *redis.Client {
	own := *o
	own.MaxRetries = -1
	own.ContextTimeoutEnabled = true
	own.DialerRetries = 1
	own.DisableIdentity = true
	own.ReplicaOnly, own.RouteByLatency, own.RouteRandomly, own.UseDisconnectedReplicas = false, false, false, false
	timeouts(&own.DialTimeout, &own.ReadTimeout, &own.WriteTimeout, &own.PoolTimeout, cfg.Timeout)
	if cfg.PoolSize > 0 {
		own.PoolSize = cfg.PoolSize
	}
	return undauntedFailover(&own)
}

// timeouts bounds each step by the timeout; the call as a whole is bounded by its context.
func timeouts(dial, read, write, pool *time.Duration, timeout time.Duration) {
	*dial, *read, *write, *pool = timeout, timeout, timeout, timeout
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
