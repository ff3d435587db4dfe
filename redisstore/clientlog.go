package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clientLogEvery is how often each kind of line is logged at most.
const clientLogEvery = time.Hour

// SetClientLogger makes go-redis, which has one logger for the whole process and by default writes to stderr, log to l: each
// kind of line at most once an hour, with how many were left out, so that an outage of servers or sentinels does not fill
// the log. A nil l drops all. It is for programs to call, once, before they open a store; a library leaves it to them.
func SetClientLogger(l *slog.Logger) { redis.SetLogger(newClientLogger(l)) }

func newClientLogger(l *slog.Logger) *clientLogger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &clientLogger{log: l, kinds: map[string]*clientKind{}}
}

// clientLogger is a logger of go-redis. The kind of a line is its format, of which the client has a few dozen.
type clientLogger struct {
	log   *slog.Logger
	mu    sync.Mutex
	kinds map[string]*clientKind
}

type clientKind struct {
	at   time.Time // when one was logged
	left int       // out since
}

// Printf logs a line, or counts it.
func (c *clientLogger) Printf(ctx context.Context, format string, args ...any) {
	c.mu.Lock()
	k, now := c.kinds[format], time.Now()
	if k == nil {
		k = &clientKind{}
		c.kinds[format] = k
	}
	if !k.at.IsZero() && now.Sub(k.at) < clientLogEvery {
		k.left++
		c.mu.Unlock()
		return
	}
	left := k.left
	k.at, k.left = now, 0
	c.mu.Unlock()
	c.log.WarnContext(ctx, "go-redis: "+fmt.Sprintf(format, args...), "left_out", left)
}
