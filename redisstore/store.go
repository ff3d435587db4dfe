package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/lease"
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
	// Of limits with shards it is the slot of shard 0, from which those of the others are counted.
	// It must be the same function in all replicas.
	Slot func(*tidegate.Charge) string
	// NoDeniedCache asks the server also for what it just said cannot pass yet. By default such a take is refused here,
	// for at most a second, which its Source says; what other processes refund or reset within that second is then seen late.
	NoDeniedCache bool
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
	inject  func() int64  // the time of the scripts, for tests; nil: the server's
	chance  func() uint64 // chooses shards
	started time.Time
	closed  atomic.Bool

	leases  *lease.Layer
	limits  limits
	names   names
	rules   ruleNames
	batches batches
	nodes   nodes // of a cluster
	denied  denied
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
	s := &Store{scripts: newScripts(false), started: time.Now(), chance: rand.Uint64}
	if cfg != nil {
		s.cfg = *cfg
	}
	if s.cfg.Prefix == "" {
		s.cfg.Prefix = "tidegate:"
	}
	if strings.ContainsFunc(s.cfg.Prefix, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '{' || r == '}' }) {
		return nil, fmt.Errorf("redisstore: the prefix %q: it must be printable and without spaces and braces", s.cfg.Prefix)
	}
	if s.cfg.KeySecret != nil {
		// Also an empty one that is not nil, which is what []byte(os.Getenv(…)) makes of a variable that nobody set.
		if n := len(s.cfg.KeySecret); n < 16 {
			return nil, fmt.Errorf("redisstore: a KeySecret of %d bytes: at least 16, or nil for none", n)
		}
		s.cfg.KeySecret = bytes.Clone(s.cfg.KeySecret)
	}
	if s.cfg.PoolSize < 0 {
		return nil, fmt.Errorf("redisstore: a PoolSize of %d: leave it 0 for the default", s.cfg.PoolSize)
	}
	if s.cfg.Timeout < 0 {
		return nil, fmt.Errorf("redisstore: a timeout of %v: leave it 0 for the default of 1s", s.cfg.Timeout)
	}
	if s.cfg.Timeout == 0 {
		s.cfg.Timeout = time.Second
	}
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	s.leases = lease.New(lease.Config{Take: s.takeStrict, Wait: s.cfg.Timeout})
	return s, nil
}

func (s *Store) start() {
	_, s.cluster = s.client.(*redis.ClusterClient)
	s.batches.init(s)
	s.nodes.store = s
	s.denied.init()
	for _, h := range s.cfg.Hooks {
		s.client.AddHook(h)
	}
}

// elapsed returns how long ago the store was made, which costs less to know than what time it is.
func (s *Store) elapsed() time.Duration { return time.Since(s.started) }

// Close closes the store's connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.leases.Close()
	return s.client.Close()
}

// Now returns the server's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	bounded, cancel, err := s.begin(ctx, "now")
	if err != nil {
		return time.Time{}, err
	}
	defer cancel()
	if s.inject != nil {
		return time.UnixMicro(s.inject()), nil
	}
	t, err := s.client.Time(bounded).Result()
	if err != nil {
		return time.Time{}, s.failure(ctx, "now", err)
	}
	return t, nil
}

// ready returns the error of a call that cannot be made.
func (s *Store) ready(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return &tidegate.StoreError{Op: op, Err: tidegate.ErrClosed}
	}
	return nil
}

// begin bounds a call, or returns the error of one that cannot be made.
func (s *Store) begin(ctx context.Context, op string) (context.Context, context.CancelFunc, error) {
	if err := s.ready(ctx, op); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	return bounded, cancel, nil
}

// failure tells an error of the store from the going away of the caller, whose context it is given unbounded.
func (s *Store) failure(caller context.Context, op string, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	// The caller's deadline reached the socket, which notices it a moment before the context does.
	if deadline, ok := caller.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	if _, ok := errors.AsType[*tidegate.StoreError](err); ok {
		return err
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
