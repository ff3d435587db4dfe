package redisserver

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestServer(t *testing.T) {
	redistest.StartTCP(t) // which skips the test, or fails it, where there is no server
	ctx := t.Context()
	s, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
	c := redis.NewClient(opts)
	defer c.Close()
	ping := func() error {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return c.Ping(short).Err()
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if ping() == nil {
		t.Error("it answers while it is stopped")
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := c.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after a pause k is %q", got)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if ping() == nil {
		t.Error("it answers although it is dead")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("it came back with its data: %v", err)
	}
	if err := errors.Join(s.Pause(), s.Close()); err != nil {
		t.Errorf("a stopped server cannot be ended: %v", err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left %s: %v", s.dir, err)
	}
}

func TestServerIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if s, err := Start(t.Context()); s != nil || !errors.Is(err, ErrMissing) {
		t.Errorf("%v, %v", s, err)
	}
}

// What cannot start says why, and leaves nothing.
func TestServerThatEnds(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("TMPDIR", t.TempDir())
	if err := os.WriteFile(dir+"/redis-server", []byte("#!/bin/sh\necho first\necho no such luck\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context()); err == nil || !strings.Contains(err.Error(), "redis-server ended: no such luck") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestServerInterrupted(t *testing.T) {
	redistest.StartTCP(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
