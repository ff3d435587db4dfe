package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of our own.
type server struct {
	cmd           *exec.Cmd
	addr, version string
}

// startRedis starts a redis-server on a free port of the loopback interface, without persistence.
func startRedis(ctx context.Context) (*server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	var log bytes.Buffer
	s := &server{addr: addr}
	//nolint:gosec // the port is a number
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no")
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: install redis-server, or run make deps", err)
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		info, err := client.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, "process_id:"+strconv.Itoa(s.cmd.Process.Pid)) {
			_, rest, _ := strings.Cut(info, "redis_version:")
			version, _, _ := strings.Cut(rest, "\r")
			s.version = "Redis " + version
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, errors.Join(fmt.Errorf("redis-server on %s does not answer: %w", addr, err), errors.New(log.String()))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
