package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/etcdtest"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/rules/source"
)

// versionText is a file whose rule tells by its burst which version it is.
func versionText(n int) string {
	return fmt.Sprintf("version: 1\nrules:\n  - name: r\n    limit: 1000/s burst %d\n", 1000+n)
}

// brokenText is one of several files that are bad.
func brokenText(n int) string {
	return []string{
		strings.Replace(versionText(n), "limit:", "limt:", 1),
		versionText(n)[:len(versionText(n))-25], // half written
		"",
		"version: 1\nrules:\n  - name: r\n    limit: 1000/fortnight\n",
		versionText(n) + "  - name: r\n    limit: 1/s\n",
	}[n/10]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replaceFile gives the file another text, in one of the ways that there are.
func replaceFile(t *testing.T, path, text string, n int) {
	t.Helper()
	tmp := fmt.Sprintf("%s.%d", path, n)
	switch n % 3 {
	case 0: // in place
		must(t, os.WriteFile(path, []byte(text), 0o600))
	case 1: // another file gets the name
		must(t, os.WriteFile(tmp, []byte(text), 0o600))
		must(t, os.Rename(tmp, path))
	default: // a link to another file gets it
		must(t, os.WriteFile(tmp+".target", []byte(text), 0o600))
		must(t, os.Symlink(filepath.Base(tmp)+".target", tmp))
		must(t, os.Rename(tmp, path))
	}
}

// TestServeFileChanges: while takes go on, a file is replaced fifty times, five of them by a broken one. No take fails or
// finds no rule, and exactly the good versions are applied.
func TestServeFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	must(t, os.WriteFile(path, []byte(versionText(0)), 0o600))
	s := serve(t, "--rules", path)
	good := map[int64]bool{1000: true}
	l := startLoad(s, 2000)
	broken, last := 0, int64(1000)
	for n := 1; n <= 50; n++ {
		if n%10 == 9 {
			replaceFile(t, path, brokenText(n), n)
			broken++
			eventually(t, patience, "the broken file is noticed", func() bool {
				return s.metric(t, `tidegate_rules_changes_total{outcome="invalid",source="file"}`) == float64(broken)
			})
			if s.limit() != last || s.metric(t, "tidegate_rules_stale") != 1 {
				t.Errorf("after a broken file the limit is %d, want %d", s.limit(), last)
			}
			continue
		}
		last = int64(1000 + n)
		good[last] = true
		replaceFile(t, path, versionText(n), n)
		eventually(t, patience, fmt.Sprintf("version %d is applied", n), func() bool { return s.limit() == last })
	}
	l.end(t, good)
	if n := s.metric(t, `tidegate_rules_changes_total{outcome="applied",source="file"}`); n != 46 || len(l.limits) != 46 {
		t.Errorf("%v versions were applied, and %d decided takes, want 46", n, len(l.limits))
	}
	if s.limit() != 1050 || s.metric(t, "tidegate_rules_stale") != 0 {
		t.Errorf("the last limit is %d", s.limit())
	}
	log, _ := s.stderr.text()
	if n := strings.Count(log, "level=ERROR"); n != broken {
		t.Errorf("%d errors were logged, want one for each broken file:\n%s", n, log)
	}
}

// TestServeStoreChanges: the same with fifty pushes through Redis, which three processes see; all of them have the last one
// within a second.
func TestServeStoreChanges(t *testing.T) {
	srv := redistest.StartTCP(t)
	store, err := redisstore.Open(srv.URL(), nil)
	must(t, err)
	defer store.Close()
	shared := store.Rules()
	push := func(text string) int64 {
		version, err := shared.Push(context.Background(), []byte(text), "test", source.AnyVersion)
		must(t, err)
		return version
	}
	push(versionText(0))
	good := map[int64]bool{1000: true}
	var replicas []*served
	var loads []*load
	for range 3 {
		s := serve(t, "--rules", "store", "--store", srv.URL())
		replicas = append(replicas, s)
		loads = append(loads, startLoad(s, 700))
	}
	var version int64
	for n := 1; n <= 50; n++ {
		if n%10 == 9 { // past the check of the command
			text := brokenText(n)
			if text == "" {
				text = "# nothing"
			}
			push(text)
		} else {
			good[int64(1000+n)] = true
			version = push(versionText(n))
		}
		if n < 50 {
			time.Sleep(40 * time.Millisecond) // so that some are seen in between
		}
	}
	// A decision does not tell: a bucket that one replica has brought the last limit to keeps it, whoever asks.
	seen := eventually(t, time.Second, "all three have the last version", func() bool {
		for _, s := range replicas {
			if !s.hasVersion(t, version) {
				return false
			}
		}
		return true
	})
	t.Logf("all three have the last version %v after", seen)
	for i, s := range replicas {
		loads[i].end(t, good)
		if s.limit() != 1050 {
			t.Errorf("replica %d has the limit %d", i, s.limit())
		}
		if s.metric(t, "tidegate_rules_stale") != 0 {
			t.Errorf("replica %d is stale", i)
		}
	}

	// And again after a reconnect.
	srv.Pause()
	for _, s := range replicas {
		eventually(t, patience, "the outage is noticed", func() bool { return s.metric(t, "tidegate_rules_stale") == 1 })
	}
	srv.Resume()
	version = push(versionText(60))
	for _, s := range replicas {
		eventually(t, 2*time.Second, "the version after the outage is there", func() bool { return s.hasVersion(t, version) })
	}
}

// hasVersion reports whether the service has the rules of the version.
func (s *served) hasVersion(t *testing.T, version int64) bool {
	t.Helper()
	return math.Abs(s.metric(t, "tidegate_rules_version_timestamp_seconds")-float64(version)/1e6) < 1e-5
}

// runCommand runs a command of this program, and returns its exit code and what it printed.
func runCommand(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// pushFile pushes a text by the command.
func pushFile(t *testing.T, place, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pushed.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if code, _, stderr := runCommand("rules", "push", path, "--store", place); code != 0 {
		t.Fatalf("push ended with %d: %s", code, stderr)
	}
}

// TestServeUntil: a limit that ends lets traffic through, and then the former is back without anyone acting, also in a
// process that was started meanwhile.
func TestServeUntil(t *testing.T) {
	srv := redistest.StartTCP(t)
	pushFile(t, srv.URL(), "version: 1\nrules:\n  - name: r\n    limit: 2/h\n")
	s := serve(t, "--rules", "store", "--store", srv.URL())
	body := `{"attributes":{},"cost":2}`
	if a, err := s.take(body); err != nil || !a.Allowed {
		t.Fatalf("the first take: %+v, %v", a, err)
	}
	if a, err := s.take(body); err != nil || a.Allowed {
		t.Fatalf("the bucket is not empty: %+v, %v", a, err)
	}
	pushed := time.Now()
	pushFile(t, srv.URL(), "version: 1\nrules:\n  - name: r\n    limit: unlimited until 3s\n")
	eventually(t, time.Second, "it is unlimited", func() bool {
		a, err := s.take(body)
		return err == nil && a.Allowed && a.Limit == nil
	})
	other := serve(t, "--rules", "store", "--store", srv.URL())
	if since := time.Since(pushed); since < 2*time.Second { // else this machine is too slow to see it
		if a, err := other.take(body); err != nil || !a.Allowed {
			t.Errorf("a process that was started meanwhile, %v after: %+v, %v", since, a, err)
		}
	}
	for i, p := range []*served{s, other} {
		eventually(t, 10*time.Second, fmt.Sprintf("the former limit is back in process %d", i), func() bool {
			a, err := p.take(body)
			return err == nil && !a.Allowed && a.Limit != nil && *a.Limit == 2
		})
	}
	if since := time.Since(pushed); since < 2900*time.Millisecond {
		t.Errorf("the former limit is back %v after the push", since)
	}
	testClient.CloseIdleConnections()
}

// TestServeEtcd: a service that starts before there are rules begins when they are pushed, and follows them.
func TestServeEtcd(t *testing.T) {
	srv := etcdtest.Start(t)
	place := srv.URL("tidegate/rules")
	s := launch(t, "--rules", place)
	s.awaits(t, "there are no rules yet; takes are answered 503 until some are there: tidegate rules push FILE --store "+place)
	s.awaits(t, "listening on")
	text, _ := s.stderr.text()
	s.url = listeningOn.FindStringSubmatch(text)[1]
	pushFile(t, place, versionText(1))
	eventually(t, time.Second, "the first rules are there", func() bool { return s.limit() > 0 })
	if n := s.limit(); n != 1001 {
		t.Errorf("the limit is %d", n)
	}
	pushFile(t, place, versionText(2))
	eventually(t, time.Second, "the change is seen", func() bool { return s.limit() == 1002 })
	if code, stdout, _ := runCommand("rules", "pull", "--store", place); code != 0 || stdout != versionText(2) {
		t.Errorf("pull ended with %d: %s", code, stdout)
	}
	if code, _, stderr := runCommand("rules", "history", "--store", place); code != 2 || !strings.Contains(stderr, "no versions") {
		t.Errorf("history ended with %d: %s", code, stderr)
	}
	testClient.CloseIdleConnections()
}

// TestServeHangup: SIGHUP makes a service look at its file again, and say again what is wrong with it.
func TestServeHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	must(t, os.WriteFile(path, []byte(versionText(0)), 0o600))
	s := serve(t, "--rules", path)
	must(t, os.WriteFile(path, []byte(brokenText(9)), 0o600))
	errorsLogged := func() int {
		text, _ := s.stderr.text()
		return strings.Count(text, "level=ERROR")
	}
	for n := 1; n <= 3; n++ {
		eventually(t, patience, "it says what is wrong", func() bool { return errorsLogged() == n })
		must(t, s.cmd.Process.Signal(syscall.SIGHUP))
	}
	if s.limit() != 1000 {
		t.Errorf("the limit is %d", s.limit())
	}
	testClient.CloseIdleConnections()
}
