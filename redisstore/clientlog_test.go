package redisstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestClientLogger: of each kind of line of go-redis one an hour is logged, and how many were left out.
func TestClientLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newClientLogger(slog.New(slog.NewTextHandler(&b, nil)))
		for i := range 7200 {
			l.Printf(context.Background(), "sentinel: %d failed", i)
			time.Sleep(time.Second)
		}
		l.Printf(context.Background(), "another: %s", "thing")
		text := b.String()
		if strings.Count(text, "\n") != 3 || !strings.Contains(text, `"go-redis: sentinel: 0 failed" left_out=0`) ||
			!strings.Contains(text, `"go-redis: sentinel: 3600 failed" left_out=3599`) || !strings.Contains(text, "another: thing") {
			t.Errorf("it logged\n%s", text)
		}
	})
}

// TestNoClientLogger: nil drops all.
func TestNoClientLogger(t *testing.T) {
	t.Cleanup(func() { redis.SetLogger(silent{}) })
	SetClientLogger(nil)
	newClientLogger(nil).Printf(context.Background(), "nobody hears")
}
