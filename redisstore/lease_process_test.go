//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

const (
	childURL   = "TIDEGATE_TEST_LEASE_URL" // makes this test binary a child of the tests below
	childLimit = "TIDEGATE_TEST_LEASE_LIMIT"
)

// TestLeaseChild is no test but the process that the tests below pause and kill. It takes one after the other until its
// input ends, and says: for each, how many were admitted, where it was decided and what remains; when it stood still for
// longer than a lease lives; and when it spent a token longer than that after the store had last answered.
func TestLeaseChild(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		return
	}
	s := openCached(t, url, nil)
	c := newCharge(t, "process", "k", os.Getenv(childLimit), 1)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	start := time.Now()
	var last, answered time.Duration
	for n := 1; ; n++ {
		select {
		case <-ended:
			return
		default:
		}
		before := time.Since(start)
		d := mustTake(t, s, c)[0]
		after := time.Since(start)
		if !d.Allowed {
			n--
		}
		fmt.Printf("%d %v %d\n", n, d.Source, d.Remaining)
		if after-last > c.Limit.Lease {
			fmt.Println("still", after-last)
		}
		if last = after; d.Source != tidegate.SourceLease {
			answered = after
		} else if before >= answered+c.Limit.Lease {
			fmt.Println("late", before-answered)
		}
	}
}

// child is a process that takes.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func startChild(t *testing.T, url, limit string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeaseChild$")
	cmd.Env = append(os.Environ(), childURL+"="+url, childLimit+"="+limit)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{t, cmd, in, bufio.NewScanner(out)}
}

// until reads lines until one of which f is true, and returns it; "" if they end before.
func (c *child) until(f func(line string) bool) string {
	for c.lines.Scan() {
		if f(c.lines.Text()) {
			return c.lines.Text()
		}
	}
	return ""
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// leasedWith reports whether the line tells of a take from a lease that has so many left.
func leasedWith(line string, least int64) bool {
	var n, left int64
	var source string
	_, err := fmt.Sscan(line, &n, &source, &left)
	return err == nil && source == "lease" && left >= least
}

// TestLeaseOfPausedProcess: a process that was stopped for longer than its lease lives asks the store before it admits
// anybody.
func TestLeaseOfPausedProcess(t *testing.T) {
	if raceDetector {
		t.Log("not under the race detector, whose timing is its own")
		return
	}
	srv := redistest.Start(t)
	c := startChild(t, srv.URL(), "100000/s burst 100000 lease 300ms")
	for range 3 {
		if c.until(func(line string) bool { return leasedWith(line, 1000) }) == "" {
			t.Fatal("the child ended")
		}
		c.signal(syscall.SIGSTOP)
		<-time.After(400 * time.Millisecond)
		c.signal(syscall.SIGCONT)
		line := c.until(func(line string) bool { return strings.HasPrefix(line, "still") || strings.HasPrefix(line, "late") })
		if !strings.HasPrefix(line, "still") {
			t.Fatalf("%q: it did not stand still, or spent what had lapsed", line)
		}
		after := c.until(func(string) bool { return true })
		if strings.HasPrefix(after, "late") {
			t.Errorf("%q: it spent what had lapsed", after)
		}
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if line := c.until(func(line string) bool { return strings.HasPrefix(line, "late") }); line != "" {
		t.Errorf("%q: it spent what had lapsed", line)
	}
}

// TestLeaseOfKilledProcess: what a process had taken ahead when it was killed is neither spent nor given back.
func TestLeaseOfKilledProcess(t *testing.T) {
	srv := redistest.Start(t)
	const text = "1/day burst 2000 lease 300ms"
	c := startChild(t, srv.URL(), text)
	var admitted, left int64
	if c.until(func(line string) bool { return leasedWith(line, 20) }) == "" {
		t.Fatal("the child ended")
	}
	c.signal(syscall.SIGKILL)
	c.until(func(line string) bool { // what it had said before
		var source string
		_, _ = fmt.Sscan(line, &admitted, &source, &left)
		return false
	})
	s := openStore(t, srv.URL(), nil)
	charge := newCharge(t, "process", "k", text, 1)
	charged := 2000 - remaining(t, s, charge)
	if most := admitted + charge.Limit.Burst/10 + 2; charged < admitted || charged > most {
		t.Errorf("%d were charged, %d admitted: want %d at most, with a slice and a take that it did not live to tell", charged, admitted, most)
	}
	<-time.After(charge.Limit.Lease)
	if again := 2000 - remaining(t, s, charge); again != charged {
		t.Errorf("%d are charged after the lease has lapsed, %d were before", again, charged)
	}
	rest := int64(0)
	for ctx := context.Background(); ; rest++ {
		ds, err := s.takeStrict(ctx, []tidegate.Charge{charge}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !ds[0].Allowed {
			break
		}
	}
	if admitted+rest > 2000 || charged+rest != 2000 {
		t.Errorf("%d and then %d were admitted, %d charged in between", admitted, rest, charged)
	}
}
