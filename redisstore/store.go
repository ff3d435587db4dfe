package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/internal/key"
)

// Config says how a [Store] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Prefix begins every key: printable, without braces. Services that share a server and should not share buckets
	// have prefixes of their own. Default: "tidegate:".
	Prefix string
	// Timeout bounds a call, connecting included, where its context does not end before. Default: 1 s.
	Timeout time.Duration
	// PoolSize is the number of connections, per node of a cluster. Default: that of the client passed in, or 10 per CPU.
	PoolSize int
	// KeySecret, if set, keeps rules and keys out of Redis: buckets are named by an HMAC-SHA-256 under it.
	// It must be the same in all replicas. At least 16 bytes.
	KeySecret []byte
	// Slot names what shares a slot of a cluster: charges of one take are decided at one moment, all or nothing, only if
	// the buckets of all have the same. Default: the charge's key, so that all limits of one key do.
	// It must be the same function in all replicas.
	Slot func(*tidegate.Charge) string
	// Hooks see every command of the store's own connections.
	Hooks []redis.Hook
	// Now is the caller's clock, which serves to send the boundaries of calendar windows and decides nothing.
	// Default: time.Now.
	Now func() time.Time
}

// Store is a [tidegate.Store] in Redis or Valkey. Create it with [Open] or [New] and close it when done.
type Store struct {
	cfg     Config
	client  redis.UniversalClient
	cluster bool
	scripts *scripts
	inject  func() int64 // the time of the scripts, for tests; nil: the server's
	closed  atomic.Bool

	mu       sync.RWMutex
	compiled map[tidegate.Limit]*algo.Params
}

var _ tidegate.Store = (*Store)(nil)

// Open returns a store on the server or servers that the URL names. It does not connect yet, so that a service can start
// before its server does. A nil config is the default. The error says what is wrong with the URL or the config.
//
//	redis://[user:password@]host:port[/db]                     one server; rediss: with TLS
//	unix://[user:password@]/path/to.sock[?db=0]                one server on a socket
//	redis+cluster://[user:password@]host:port[,host:port…]     a cluster; rediss+cluster: with TLS
//	redis+sentinel://[user:password@]host:port[,host:port…]/master[/db]   sentinels and the name of what they watch
func Open(url string, cfg *Config) (*Store, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	if s.client, err = connect(url, &s.cfg); err != nil {
		return nil, err
	}
	s.start()
	return s, nil
}

// New returns a store on the server or servers of a client of go-redis, whose options it takes to build connections of
// its own: with retries off and context deadlines on, whatever the client has, since by default it sends a command again
// that may have charged. The client's hooks are not carried over: see Config.Hooks. The client stays the caller's to close.
func New(client redis.UniversalClient, cfg *Config) (*Store, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	switch c := client.(type) {
	case *redis.Client:
		s.client = single(c.Options(), &s.cfg)
	case *redis.ClusterClient:
		s.client = cluster(c.Options(), &s.cfg)
	case nil:
		return nil, errors.New("redisstore: the client is nil")
	default:
		return nil, fmt.Errorf("redisstore: a client of type %T: give a *redis.Client (of one server or of sentinels) or a *redis.ClusterClient", client)
	}
	s.start()
	return s, nil
}

func newStore(cfg *Config) (*Store, error) {
	s := &Store{compiled: map[tidegate.Limit]*algo.Params{}, scripts: newScripts(false)}
	if cfg != nil {
		s.cfg = *cfg
	}
	if s.cfg.Prefix == "" {
		s.cfg.Prefix = "tidegate:"
	}
	if i := strings.IndexFunc(s.cfg.Prefix, func(r rune) bool { return r <= ' ' || r == '{' || r == '}' || r == 0x7f }); i >= 0 {
		return nil, fmt.Errorf("redisstore: the prefix %q: it must be printable and without spaces and braces", s.cfg.Prefix)
	}
	if n := len(s.cfg.KeySecret); n > 0 && n < 16 {
		return nil, fmt.Errorf("redisstore: a KeySecret of %d bytes: at least 16", n)
	}
	if s.cfg.Timeout < 0 {
		return nil, fmt.Errorf("redisstore: a timeout of %v: leave it 0 for the default of 1s", s.cfg.Timeout)
	}
	if s.cfg.Timeout == 0 {
		s.cfg.Timeout = time.Second
	}
	if s.cfg.Slot == nil {
		s.cfg.Slot = func(c *tidegate.Charge) string { return c.Key }
	}
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	return s, nil
}

func (s *Store) start() {
	_, s.cluster = s.client.(*redis.ClusterClient)
	for _, h := range s.cfg.Hooks {
		s.client.AddHook(h)
	}
}

// Close closes the store's connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.client.Close()
}

// Now returns the server's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel, err := s.begin(ctx, "now")
	if err != nil {
		return time.Time{}, err
	}
	defer cancel()
	if s.inject != nil {
		return time.UnixMicro(s.inject()), nil
	}
	t, err := s.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, s.failure(ctx, "now", err)
	}
	return t, nil
}

// begin bounds a call, or returns the error of one that cannot be made.
func (s *Store) begin(ctx context.Context, op string) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if s.closed.Load() {
		return nil, nil, &tidegate.StoreError{Op: op, Err: tidegate.ErrClosed}
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	return context.WithValue(bounded, callerKey{}, ctx), cancel, nil
}

type callerKey struct{}

// failure tells an error of the store from the caller's going away, of which nobody needs to be told twice.
func (s *Store) failure(ctx context.Context, op string, err error) error {
	if caller, ok := ctx.Value(callerKey{}).(context.Context); ok && caller.Err() != nil {
		return caller.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		err = fmt.Errorf("no answer within %v: %w", s.cfg.Timeout, err)
	}
	return &tidegate.StoreError{Op: op, Err: err}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// params compiles a limit, once.
func (s *Store) params(l *tidegate.Limit) (*algo.Params, error) {
	s.mu.RLock()
	p := s.compiled[*l]
	s.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := algo.Compile(*l)
	if err != nil {
		return nil, err
	}
	const most = 10_000 // limits; a program that makes up limits all day starts anew
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.compiled) >= most {
		clear(s.compiled)
	}
	s.compiled[*l] = p
	return p, nil
}

// tag returns the part of a bucket's key that decides its slot: a hash, so that it is short and tells nothing.
func (s *Store) tag(c *tidegate.Charge) string {
	slot := s.cfg.Slot(c)
	if s.cfg.KeySecret != nil {
		slot = string(key.AppendSecret(nil, s.cfg.KeySecret, "slot", slot))
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(slot))
	return fmt.Sprintf("%08x", h.Sum32())
}

// bucketKey returns the key of a charge's bucket.
func (s *Store) bucketKey(c *tidegate.Charge, tag string) string {
	b := make([]byte, 0, 128)
	b = append(b, s.cfg.Prefix...)
	b = append(b, '{')
	b = append(b, tag...)
	b = append(b, '}')
	if s.cfg.KeySecret != nil {
		return string(key.AppendSecret(b, s.cfg.KeySecret, c.Rule, c.Key))
	}
	return string(key.AppendBucket(b, c.Rule, c.Key))
}

// recordKey returns the key of what a reservation charged in a slot.
func (s *Store) recordKey(tag, id string) string {
	return s.cfg.Prefix + "{" + tag + "}%!" + id
}
