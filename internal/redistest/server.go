package redistest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is one server process, or the place of one that was killed.
type Server struct {
	Network string // "unix" or "tcp"
	Addr    string // the socket's path, or "127.0.0.1:port"

	tb       testing.TB
	binary   string
	dir      string
	password string
	args     []string // the command line, the same at every start

	mu   sync.Mutex
	proc *process // of the last start
}

// Start starts a standalone server on a unix socket. The options are those of the command line, a name and its
// values as separate strings: Start(t, "--maxmemory", "2mb"). With "--requirepass" the server's password is used by
// Do and stands in URL.
func Start(tb testing.TB, opts ...string) *Server {
	tb.Helper()
	return launch(tb, plan{
		password: password(opts),
		args: func(s *Server, _ int) ([]string, error) {
			args := []string{"--port", "0", "--unixsocket", s.Addr, "--unixsocketperm", "700"}
			return standalone(s, args, opts), nil
		},
	})
}

// StartTCP is like Start on a free port of 127.0.0.1.
func StartTCP(tb testing.TB, opts ...string) *Server {
	tb.Helper()
	return launch(tb, plan{
		password: password(opts),
		port:     freePort,
		args: func(s *Server, port int) ([]string, error) {
			return standalone(s, []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1"}, opts), nil
		},
	})
}

func standalone(s *Server, args, opts []string) []string {
	args = append(args, "--dir", s.dir, "--save", "", "--appendonly", "no")
	return append(args, opts...)
}

// password returns the value of the last --requirepass.
func password(opts []string) string {
	var p string
	for i, o := range opts {
		if o == "--requirepass" && i+1 < len(opts) {
			p = opts[i+1]
		}
	}
	return p
}

// URL returns "unix:///path" or "redis://127.0.0.1:port", with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr}
	if s.Network == "unix" {
		u = url.URL{Scheme: "unix", Path: s.Addr}
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Do sends one command over a connection of its own and returns the reply: a string, an int64, a []any, or nil.
// An error that the server answers is a ReplyError. It gives up after ten seconds.
func (s *Server) Do(args ...string) (any, error) { return s.do(commandTime, args...) }

func (s *Server) do(d time.Duration, args ...string) (any, error) {
	return command(d, s.Network, s.Addr, s.password, args...)
}

// Kill ends the server as a crash would. It does nothing when the server has ended.
func (s *Server) Kill() {
	s.tb.Helper()
	if err := s.kill(); err != nil {
		s.tb.Errorf("redistest: kill %s: %v", s.Addr, err)
	}
}

// Stop asks the server to shut down, resuming it first if it is paused, and waits until it has.
func (s *Server) Stop() {
	s.tb.Helper()
	p := s.process()
	err := errors.Join(terminate(p.cmd.Process), resume(p.cmd.Process))
	if p.wait(exitTime) {
		return
	}
	s.tb.Errorf("redistest: %s did not stop within %v (%v) and is killed; the end of its log:\n%s",
		s.Addr, exitTime, err, p.tail(logLines))
	s.Kill()
}

// Restart starts the server again with the same command line on the same socket or port; one that still runs is
// killed first.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	// Something else may hold the port for a moment, a connection that got it as its local one for instance.
	await(s.tb, "restart "+s.Addr, startTime, func() error {
		err := s.run()
		if err != nil && !errors.Is(err, errPortTaken) {
			return permanentError{err}
		}
		return err
	})
}

// Pause stops the process with SIGSTOP: connections are accepted by the kernel and nothing is answered.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := pause(s.process().cmd.Process); err != nil {
		s.tb.Fatalf("redistest: pause %s: %v", s.Addr, err)
	}
}

// Resume ends a Pause. What was sent meanwhile is then carried out.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := resume(s.process().cmd.Process); err != nil {
		s.tb.Fatalf("redistest: resume %s: %v", s.Addr, err)
	}
}

// Log returns what the server has written since it was last started.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.process().log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) kill() error {
	if p := s.process(); p != nil {
		return p.kill()
	}
	return nil
}

// plan is how a server is to be started.
type plan struct {
	password string
	port     func() (int, error)                             // chooses a port; nil for a unix socket
	args     func(s *Server, port int) (a []string, e error) // makes the command line, when dir and Addr are set
}

const (
	startTries = 5   // with another port each
	logLines   = 20  // shown when a server fails to start
	socketPath = 103 // the longest that every system takes
)

var errPortTaken = errors.New("the port is taken")

// launch starts a server as planned, with another port when the one that was chosen is taken by the time the
// server binds it, and ends it with the test.
func launch(tb testing.TB, pl plan) *Server {
	tb.Helper()
	s := &Server{tb: tb, binary: binary(tb), password: pl.password}
	tb.Cleanup(func() {
		if err := errors.Join(s.kill(), os.RemoveAll(s.dir)); err != nil {
			tb.Errorf("redistest: clean up: %v", err)
		}
	})
	var err error
	for range startTries {
		if err = s.prepare(pl); err == nil {
			err = s.run()
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatalf("redistest: start: %v", err)
	}
	return s
}

// prepare sets the server's directory, address and command line.
func (s *Server) prepare(pl plan) (err error) {
	if s.dir == "" {
		if s.dir, err = shortTempDir(); err != nil {
			return err
		}
	}
	port := 0
	if pl.port == nil {
		s.Network, s.Addr = "unix", filepath.Join(s.dir, "sock")
	} else {
		if port, err = pl.port(); err != nil {
			return err
		}
		s.Network, s.Addr = "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	s.args, err = pl.args(s, port)
	return err
}

// shortTempDir makes a directory whose path leaves room for a unix socket's name. The one of testing.TB holds the
// name of the test and is soon too long.
func shortTempDir() (string, error) {
	dir, err := os.MkdirTemp("", "tg")
	if err != nil || len(filepath.Join(dir, "sock")) <= socketPath {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "tg")
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	p, err := startProcess(s.binary, s.dir, filepath.Join(s.dir, "log"), s.args)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()

	err = poll(startTime, func() error {
		if p.ended() {
			return permanentError{errors.New("the server has exited")}
		}
		return s.ready(p)
	})
	if err == nil {
		return nil
	}
	tail := p.tail(logLines)
	if p.ended() && strings.Contains(tail, "Address already in use") {
		err = errPortTaken
	}
	return errors.Join(fmt.Errorf("%w; the end of the log of %s:\n%s", err, s.Addr, tail), p.kill())
}

// ready reports an error unless the server answers a command, and is the process that was started: a port that was
// taken may belong to another test's server.
func (s *Server) ready(p *process) error {
	if _, err := s.do(time.Second, "PING"); err != nil {
		return err // LOADING among others
	}
	info, err := s.do(time.Second, "INFO", "server")
	if err != nil {
		return err
	}
	if pid := fields(info)["process_id"]; pid != strconv.Itoa(p.pid()) {
		return fmt.Errorf("%s is answered by process %q, not by %d", s.Addr, pid, p.pid())
	}
	return nil
}
