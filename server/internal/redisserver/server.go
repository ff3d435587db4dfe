package redisserver

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	startTime = 15 * time.Second // until it answers, on a machine that is busy
	exitTime  = 10 * time.Second // from SIGKILL until it has gone
	probeTime = time.Second
	pollEvery = 5 * time.Millisecond
	// portTries is how often another port is tried: between the moment in which one is found free and that in which the
	// server listens on it, somebody else may take it.
	portTries = 5
)

// binaries are what the server is called, the first that there is.
var binaries = [...]string{"redis-server", "valkey-server"}

// ErrMissing says that there is no server on this machine.
var ErrMissing = errors.New("there is no redis-server in PATH: install it, as with apt-get install redis-server")

// Find returns the path of the server's binary, or [ErrMissing].
func Find() (string, error) {
	for _, name := range binaries {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// A Server is a redis-server on a free port of 127.0.0.1, without a disk. Create it with [Start]; its methods are not safe
// for concurrent use.
type Server struct {
	binary string
	dir    string
	addr   string
	port   int
	run    *process // the latest
}

// Start starts a server and waits until it answers. Close ends it.
func Start(ctx context.Context) (*Server, error) {
	binary, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Server{binary: binary}
	if s.dir, err = os.MkdirTemp("", "tidegate-redis-"); err != nil {
		return nil, err
	}
	for range portTries {
		if s.port, err = freePort(ctx); err != nil {
			break
		}
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

// URL is where the server is.
func (s *Server) URL() string { return "redis://" + s.addr }

// Kill ends the server as a crash would.
func (s *Server) Kill() error {
	if s.run == nil {
		return nil
	}
	return s.run.kill()
}

// Restart starts the server again, empty, and returns once it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	// A connection may have the port as its local one for a moment.
	deadline := time.Now().Add(startTime)
	for {
		err := s.start(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollEvery)
	}
}

// Pause stops the process: connections are accepted by the kernel, and nothing is answered.
func (s *Server) Pause() error { return pause(s.run.cmd.Process) }

// Resume ends a pause. What was sent meanwhile is then carried out.
func (s *Server) Resume() error { return resume(s.run.cmd.Process) }

// Close ends the server, stopped or not, and deletes what it left.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }

// start starts the process and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	p, err := startProcess(s.binary, filepath.Join(s.dir, "log"),
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return err
	}
	s.run = p
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err = s.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-p.done:
			return fmt.Errorf("redis-server ended: %s", p.lastLine())
		case <-ctx.Done():
		}
		return errors.Join(fmt.Errorf("redis-server does not answer: %w", err), p.kill())
	}
}

// answers returns nil if the server answers, and is the process that was started: the port may be another's. A client's pool
// would dial more often than it is asked to, and say so; one question over one connection needs none.
func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if _, err := io.WriteString(c, "INFO server\r\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		pid, ok := strings.CutPrefix(lines.Text(), "process_id:")
		switch {
		case !ok:
			continue
		case pid != strconv.Itoa(s.run.cmd.Process.Pid):
			return fmt.Errorf("process %s answers at %s", pid, s.addr)
		}
		return nil
	}
	return fmt.Errorf("no answer to INFO at %s: %w", s.addr, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// freePort returns a TCP port of 127.0.0.1 on which nothing listened a moment ago.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("a TCP listener at %v", l.Addr())
	}
	return addr.Port, nil
}
