package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/remotestore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
	"github.com/tidegate-go/tidegate/storetest"
)

const remoteToken = "a-long-random-word"

// clockHook gives the scripts of a store on Redis a clock: their one line that reads it is replaced on the way to the server.
type clockHook struct {
	now     func() time.Time
	mu      sync.Mutex
	sources map[string]string // by the digest that the store calls them by
}

const (
	redisClock  = "local now = redis.call('TIME') now = now[1] * 1000000 + now[2]"
	givenClock  = "local now = tonumber(ARGV[#ARGV])"
	errNoScript = replyError("NOSCRIPT the hook has not seen it")
)

// replyError is an error as a server answers it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func (h *clockHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *clockHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *clockHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if told, ok := cmd.(*redis.TimeCmd); ok {
			told.SetVal(h.now())
			return nil
		}
		args := cmd.Args()
		name, _ := args[0].(string)
		if !strings.HasPrefix(name, "eval") {
			return next(ctx, cmd)
		}
		source, _ := args[1].(string)
		if name == "evalsha" {
			h.mu.Lock()
			source = h.sources[source]
			h.mu.Unlock()
			if source == "" {
				cmd.SetErr(errNoScript)
				return errNoScript
			}
		} else {
			digest := redis.NewScript(source).Hash()
			h.mu.Lock()
			h.sources[digest] = source
			h.mu.Unlock()
		}
		if !strings.Contains(source, redisClock) {
			return errors.New("the script reads the clock otherwise")
		}
		given := append([]any{"eval", strings.Replace(source, redisClock, givenClock, 1)}, args[2:]...)
		own := redis.NewCmd(ctx, append(given, h.now().UnixMicro())...)
		err := next(ctx, own)
		v, _ := own.Result()
		cmd.(interface{ SetVal(v any) }).SetVal(v)
		cmd.SetErr(err)
		return err
	}
}

// A store on a server on Redis is as good as one on Redis.
func TestRemoteStoreOnRedis(t *testing.T) {
	srv := redistest.Start(t)
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			if _, err := srv.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			onRedis, err := redisstore.Open(srv.URL(), &redisstore.Config{
				Timeout: 30 * time.Second, NoDeniedCache: true, Now: now,
				Hooks: []redis.Hook{&clockHook{now: now, sources: map[string]string{}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { onRedis.Close() })
			return remoteOf(t, onRedis, 128)
		},
		Buckets: func(t *testing.T, _ tidegate.Store) int64 {
			t.Helper()
			n, err := srv.Do("DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			return n.(int64)
		},
		Rounds: 2,
	})
}

// remoteOf returns a store that asks a service on a store, over a socket.
func remoteOf(tb testing.TB, store tidegate.Store, together int) tidegate.Store {
	tb.Helper()
	service, err := storeservice.New(&storeservice.Config{Store: store, Token: remoteToken, Together: together})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	service.Register(g)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	tb.Cleanup(func() {
		g.Stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	s, err := remotestore.Open(l.Addr().String(), &remotestore.Config{Token: remoteToken, Timeout: 30 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}
