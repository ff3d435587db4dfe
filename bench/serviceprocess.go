package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A program is a service that is installed, started and asked.
type program struct {
	install func(ctx context.Context, dir string) (path string, err error)
	start   func(path, dir string, p *ports) (command, error)
	ask     asker
}

// command is how a program is started, and where it answers.
type command struct {
	args, env []string
	grpc      string
	after     func(context.Context) error // what is to be looked at once it was asked; nil: nothing
}

// ports are free ports of the loopback interface.
type ports []string

func freePorts(n int) (ports, error) {
	var ps ports
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:revive // all are held until each is known, so that they differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ps = append(ps, port)
	}
	return ps, nil
}

func (p *ports) port(i int) string    { return (*p)[i] }
func (p *ports) address(i int) string { return "127.0.0.1:" + (*p)[i] }

// installed installs a program of others at its version into the directory, unless it is there.
func installed(at, name string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, dir string) (string, error) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		fmt.Fprintln(os.Stderr, "bench: installing", at)
		return path, run1(ctx, []string{"GOBIN=" + dir, "GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "install", at)
	}
}

// run1 runs a command to its end.
func run1(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the go command, and what it is told here
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// open starts the program, and returns what asks it.
func (p *program) open(ctx context.Context, dir string, asked int) (func(context.Context, int, int) error, func(), error) {
	path, err := p.install(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	free, err := freePorts(3)
	if err != nil {
		return nil, nil, err
	}
	home, err := os.MkdirTemp(dir, "run")
	if err != nil {
		return nil, nil, err
	}
	c, err := p.start(path, home, &free)
	if err != nil {
		return nil, nil, err
	}
	stop, log, err := c.run(ctx, home)
	if err != nil {
		return nil, nil, err
	}
	call, hangUp, err := p.ask(ctx, c.grpc, asked)
	if err != nil {
		stop()
		return nil, nil, errors.Join(err, errors.New(log.String()))
	}
	return call, func() {
		if c.after != nil {
			if err := c.after(ctx); err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s: what was measured is not what is meant: %v\n", path, err)
			}
		}
		hangUp()
		stop()
	}, nil
}

// run starts the command, and returns what ends it and what it prints.
func (c *command) run(ctx context.Context, dir string) (stop func(), log *bytes.Buffer, err error) {
	log = &bytes.Buffer{}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.args[0], c.args[1:]...) //nolint:gosec // a program of the benchmark
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		_ = os.RemoveAll(dir)
	}, log, nil
}
