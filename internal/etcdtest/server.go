package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	startTime  = 30 * time.Second // for a machine that is busy
	startTries = 5                // with other ports each
	logBytes   = 2000             // shown when a server fails to start
)

var sayMissing sync.Once

// Server is one etcd of a cluster of its own, or the place of one that was killed.
type Server struct {
	Addr string // "127.0.0.1:port", for clients

	tb     testing.TB
	binary string
	dir    string // which outlives a restart
	peer   string
	cmd    *exec.Cmd
	done   chan struct{}
}

// Start starts a server and waits until it is healthy.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, binary: binary(tb), dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	var err error
	for range startTries {
		if s.Addr, err = freeAddr(); err == nil {
			s.peer, err = freeAddr()
		}
		if err == nil {
			err = s.run()
		}
		if err == nil {
			return s
		}
		s.Kill()
		if rmErr := os.RemoveAll(filepath.Join(s.dir, "data")); rmErr != nil {
			tb.Fatalf("etcdtest: %v", rmErr)
		}
	}
	tb.Fatalf("etcdtest: start: %v", err)
	return nil
}

// URL returns "etcd://127.0.0.1:port/" and the key.
func (s *Server) URL(key string) string { return "etcd://" + s.Addr + "/" + key }

// Kill ends the server as a crash would. It does nothing when the server has ended.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
	s.cmd = nil
}

// Restart starts the server again on the same port, with its data; one that still runs is killed first.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	var err error
	for range startTries { // something else may hold the port for a moment
		if err = s.run(); err == nil {
			return
		}
		s.Kill()
	}
	s.tb.Fatalf("etcdtest: restart: %v", err)
}

// run starts the process and waits until it is healthy.
func (s *Server) run() error {
	path := filepath.Join(s.dir, "log")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close() // The child has its own descriptor.
	client, peer := "http://"+s.Addr, "http://"+s.peer
	// No deadline: the process lives until the test ends it.
	cmd := exec.CommandContext(context.Background(), s.binary, "--name", "test", "--data-dir", filepath.Join(s.dir, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "test="+peer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // How it ended shows in its log.
	}()
	s.cmd, s.done = cmd, done
	if err := s.healthy(); err != nil {
		text, _ := os.ReadFile(path)
		return fmt.Errorf("%w; the end of its log:\n%s", err, text[max(0, len(text)-logBytes):])
	}
	return nil
}

// healthy waits until the server says that it is, or has ended.
func (s *Server) healthy() error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(startTime)
	defer late.Stop()
	for {
		err := ask(client, "http://"+s.Addr+"/health")
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.done:
			return errors.New("the server has exited")
		case <-late.C:
			return fmt.Errorf("it is not healthy within %v: %w", startTime, err)
		}
	}
}

func ask(client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// freeAddr returns an address of 127.0.0.1 on which nothing listened a moment ago.
func freeAddr() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().String()
	return addr, l.Close()
}

// binary returns the path of etcd. Without one it skips the test, or fails it where servers are required.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("etcd")
	if err == nil {
		return path
	}
	msg := fmt.Sprintf("etcdtest: no etcd here (%v); `make test` installs it", err)
	if strings.TrimSpace(os.Getenv("TIDEGATE_REQUIRE_SERVERS")) != "" {
		tb.Fatalf("%s. TIDEGATE_REQUIRE_SERVERS is set, so this is a failure.", msg)
	}
	sayMissing.Do(func() { fmt.Fprintln(os.Stderr, msg+"; every test that needs it is skipped") })
	tb.Skip(msg)
	return ""
}
