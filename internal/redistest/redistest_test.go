package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func mustDo(t *testing.T, s *Server, args ...string) any {
	t.Helper()
	v, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Addr, args, err)
	}
	return v
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		start   func(testing.TB, ...string) *Server
		network string
		url     string
	}{
		{Start, "unix", "unix:///"},
		{StartTCP, "tcp", "redis://127.0.0.1:"},
	} {
		t.Run(tc.network, func(t *testing.T) {
			t.Parallel()
			s := tc.start(t, "--maxmemory", "64mb")
			if s.Network != tc.network || !strings.HasPrefix(s.URL(), tc.url) {
				t.Errorf("network %q, URL %q", s.Network, s.URL())
			}
			if v := mustDo(t, s, "SET", "k", "a\r\nb"); v != "OK" {
				t.Errorf("SET: %v", v)
			}
			if v := mustDo(t, s, "GET", "k"); v != "a\r\nb" {
				t.Errorf("GET: %q", v)
			}
			if v := mustDo(t, s, "GET", "absent"); v != nil {
				t.Errorf("GET of an absent key: %v", v)
			}
			if v := mustDo(t, s, "INCRBY", "n", "-7"); v != int64(-7) {
				t.Errorf("INCRBY: %v", v)
			}
			got := fmt.Sprint(mustDo(t, s, "EVAL", "return {1, 'x', false, {}, redis.error_reply('E no')}", "0"))
			if want := "[1 x <nil> [] E no]"; got != want {
				t.Errorf("EVAL: %s, want %s", got, want)
			}
			if v := fmt.Sprint(mustDo(t, s, "CONFIG", "GET", "maxmemory")); v != "[maxmemory 67108864]" {
				t.Errorf("the option did not arrive: %s", v)
			}
			_, err := s.Do("INCR", "k")
			if e, ok := errors.AsType[ReplyError](err); !ok || !strings.HasPrefix(string(e), "ERR ") {
				t.Errorf("INCR of a string: %v", err)
			}
		})
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := StartTCP(t, "--requirepass", "s e/cret")
	if v := mustDo(t, s, "PING"); v != "PONG" {
		t.Errorf("PING: %v", v)
	}
	if want := "redis://:s%20e%2Fcret@" + s.Addr; s.URL() != want {
		t.Errorf("URL is %s, want %s", s.URL(), want)
	}
	if _, err := command(time.Second, s.Network, s.Addr, "", "PING"); !errors.Is(err, ReplyError("NOAUTH Authentication required.")) {
		t.Errorf("without a password: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := StartTCP(t)
	addr := s.Addr
	for _, end := range []func(){s.Kill, s.Stop, func() { s.Pause(); s.Stop() }, func() { s.Pause(); s.Kill() }, func() {}} {
		mustDo(t, s, "SET", "k", "v")
		end()
		if v, err := s.Do("PING"); err == nil && s.process().ended() {
			t.Errorf("an ended server answers %v", v)
		}
		s.Restart()
		if s.Addr != addr {
			t.Errorf("restarted on %s, not %s", s.Addr, addr)
		}
		if v := mustDo(t, s, "GET", "k"); v != nil {
			t.Errorf("data outlived the restart: %v", v)
		}
	}
	if !strings.Contains(s.Log(), "Ready to accept connections") {
		t.Errorf("log:\n%s", s.Log())
	}
}

func TestRestartKeepsWhatTheOptionsSay(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	mustDo(t, s, "SET", "k", "v")
	s.Kill()
	s.Restart()
	if v := mustDo(t, s, "GET", "k"); v != "v" {
		t.Errorf("GET: %v", v)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Pause()
	_, err := s.do(200*time.Millisecond, "SET", "k", "v")
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("a paused server: %v, want a timeout", err)
	}
	s.Resume()
	if v := mustDo(t, s, "PING"); v != "PONG" {
		t.Errorf("PING: %v", v)
	}
	await(t, "the command sent meanwhile is carried out", time.Second, func() error {
		if v := mustDo(t, s, "GET", "k"); v != "v" {
			return fmt.Errorf("GET: %v", v)
		}
		return nil
	})
}

// A port that was free may be taken when the server binds it, even by a Redis server that answers in its place.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	other := StartTCP(t)
	_, portText, err := net.SplitHostPort(other.Addr)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	s := launch(t, plan{
		port: func() (int, error) {
			if tries++; tries < 3 {
				return taken, nil
			}
			return freePort()
		},
		args: func(s *Server, port int) ([]string, error) {
			return standalone(s, []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1"}, nil), nil
		},
	})
	if s.Addr == other.Addr || tries != 3 {
		t.Errorf("on %s after %d tries, the other on %s", s.Addr, tries, other.Addr)
	}
	mustDo(t, s, "SET", "k", "mine")
	if v := mustDo(t, other, "GET", "k"); v != nil {
		t.Errorf("two servers are one: %v", v)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	t.Parallel()
	s := &Server{tb: t, binary: binary(t)}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	err := s.prepare(plan{args: func(*Server, int) ([]string, error) { return []string{"--no-such-option", "1"}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.run(); err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error without the server's own words: %v", err)
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := StartSentinel(t)
	if len(set.SentinelAddrs) != 3 || len(set.Nodes) != 2 {
		t.Fatalf("%d sentinels, %d nodes", len(set.SentinelAddrs), len(set.Nodes))
	}
	first := set.Primary(t)
	mustDo(t, first, "SET", "k", "v")
	set.WaitReplicated(t)

	began := time.Now()
	if old := set.Failover(t); old != first {
		t.Errorf("failed over from %s, not %s", old.Addr, first.Addr)
	}
	second := set.WaitFailover(t, first)
	t.Logf("failover: %v", time.Since(began))
	if v := mustDo(t, second, "GET", "k"); v != "v" {
		t.Errorf("GET after the failover: %v", v)
	}
	await(t, "the former primary is a replica", formTime, func() error { return set.whole(set.Sentinels[0]) })
	if _, err := first.Do("SET", "k", "w"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("a write to the former primary: %v", err)
	}

	began = time.Now()
	if old := set.KillPrimary(t); old != second {
		t.Errorf("killed %s, not %s", old.Addr, second.Addr)
	}
	third := set.WaitFailover(t, second)
	t.Logf("failover after a kill: %v", time.Since(began))
	if third != first {
		t.Errorf("%s took over, not %s", third.Addr, first.Addr)
	}
	mustDo(t, third, "SET", "k", "x")
	second.Restart()
	await(t, "the killed primary comes back as a replica", formTime, func() error {
		if v, err := second.Do("GET", "k"); err != nil || v != "x" {
			return fmt.Errorf("GET: %v, %w", v, err)
		}
		return nil
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	if want := "redis+cluster://" + strings.Join(c.Addrs, ","); len(c.Addrs) != 3 || c.URL() != want {
		t.Errorf("addresses %q, URL %s", c.Addrs, c.URL())
	}
	// Each key is at home on one node; the others name that node's address.
	for i, key := range []string{"a", "b", "c", "d", "{a}b"} {
		var home *Server
		moved := ""
		for _, s := range c.Nodes {
			_, err := s.Do("SET", key, strconv.Itoa(i))
			switch e, ok := errors.AsType[ReplyError](err); {
			case err == nil && home == nil:
				home = s
			case ok && strings.HasPrefix(string(e), "MOVED "):
				moved = string(e)
			default:
				t.Fatalf("%s on %s: %v", key, s.Addr, err)
			}
		}
		if home == nil || !strings.HasSuffix(moved, " "+home.Addr) {
			t.Errorf("%s: on %v, redirected by %q", key, home, moved)
		}
	}

	c.Nodes[2].Kill()
	await(t, "the others miss the node", formTime, func() error {
		_, err := c.Nodes[0].Do("GET", "a")
		if e, ok := errors.AsType[ReplyError](err); !ok || !strings.HasPrefix(string(e), "CLUSTERDOWN") {
			return fmt.Errorf("GET: %w", err)
		}
		return nil
	})
	c.Nodes[2].Restart()
	c.Wait(t)
}

func TestPortsAreHandedOutOnce(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 200 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
	}
	port, err := freePortAndBus()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe(port + busOffset); err != nil {
		t.Errorf("the port of the bus: %v", err)
	}
}

// The two tests below run this test binary again as a child.
const envChild = "TIDEGATE_REDISTEST_CHILD"

func child(t *testing.T, run string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^("+run+")$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir()
	return cmd
}

func TestMissingBinary(t *testing.T) {
	t.Parallel()
	none := envBinary + "=" + filepath.Join(t.TempDir(), "absent")
	tests := "TestPause|TestPassword|TestCluster"

	out, err := child(t, tests, none, envRequire+"=").CombinedOutput()
	if err != nil {
		t.Errorf("without servers: %v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- SKIP"); n != 3 {
		t.Errorf("%d tests skipped, want 3:\n%s", n, out)
	}
	if n := strings.Count(string(out), "every test that needs it is skipped"); n != 1 {
		t.Errorf("said so %d times, want once:\n%s", n, out)
	}

	out, err = child(t, tests, none, envRequire+"=1").CombinedOutput()
	if err == nil {
		t.Errorf("servers are required and there are none, yet it passed:\n%s", out)
	}
	if n := strings.Count(string(out), "--- FAIL"); n != 3 || !strings.Contains(string(out), "make test") {
		t.Errorf("%d tests failed, want 3 that name `make test`:\n%s", n, out)
	}
}

// TestServerDiesWithTheTestProcess kills a child that has started a server, paused at that.
func TestServerDiesWithTheTestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Logf("nothing is promised on %s", runtime.GOOS)
		return
	}
	if os.Getenv(envChild) != "" {
		s := StartTCP(t)
		s.Pause()
		fmt.Printf("\nserver %d %s\n", s.process().pid(), s.dir)
		select {}
	}
	t.Parallel()
	binary(t) // skips the parent like the child
	cmd := child(t, t.Name(), envChild+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "server %d %s", &pid, &dir); err == nil {
			break
		}
	}
	if pid == 0 {
		t.Fatal("the child started no server")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // It was killed.
	await(t, "the server dies", exitTime, func() error {
		if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil && !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("process %d lives: %s", pid, stat)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
