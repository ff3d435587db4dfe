package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// followed is a directory that a source follows.
type followed struct {
	t       *testing.T
	dir     string
	source  *Source
	metrics *Metrics
	log     safeBuffer

	mu   sync.Mutex
	sets []*Config
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func follow(t *testing.T, dir string, o Options) *followed {
	t.Helper()
	f := &followed{t: t, dir: dir, metrics: NewMetrics()}
	var err error
	f.source, err = NewSource(SourceConfig{
		Dir: dir, Options: o, Metrics: f.metrics, Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
		Set: func(c *Config) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sets = append(f.sets, c)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = f.source.Load()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.source.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// domains are those of the latest config.
func (f *followed) domains() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sets) == 0 {
		return nil
	}
	return f.sets[len(f.sets)-1].Domains()
}

func (f *followed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sets)
}

// until waits for what a change leads to: at most as long as it takes to look without being told.
func (f *followed) until(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(3 * look); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not in time; domains %q, log:\n%s", what, f.domains(), f.log.String())
		}
	}
}

func (f *followed) untilDomains(want ...string) {
	f.t.Helper()
	f.until(strings.Join(want, ", "), func() bool { return slices.Equal(f.domains(), want) })
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func limitsOf(domain string) string {
	return "domain: " + domain + "\ndescriptors:\n- key: k\n  rate_limit: {unit: minute, requests_per_unit: 5}\n"
}

// A file that cannot be used leaves the limits before in place; it is logged and counted once, however often it is looked at.
func TestBadChangeLeavesTheOldServing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), limitsOf("a"))
	f := follow(t, dir, Options{})
	f.untilDomains("a")
	write(t, filepath.Join(dir, "next"), "domain: b\ndescriptors:\n- kay: k\n")
	if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "a.yaml")); err != nil { // at once: half of it would be another fault
		t.Fatal(err)
	}
	f.until("the fault", func() bool { return f.source.Problem() != "" })
	for range 3 {
		if err := f.source.Load(); err == nil || !strings.Contains(err.Error(), "a.yaml:3:3: descriptors[0]: there is no key \"kay\" here") {
			t.Errorf("the error is %v", err)
		}
	}
	if n := strings.Count(f.log.String(), "cannot be used"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, f.log.String())
	}
	if n := f.metrics.loadErrors.Load(); n != 1 {
		t.Errorf("it was counted %d times", n)
	}
	f.untilDomains("a")
	write(t, filepath.Join(dir, "a.yaml"), limitsOf("b"))
	f.untilDomains("b")
	if p := f.source.Problem(); p != "" {
		t.Errorf("still a problem: %s", p)
	}
}

// Without good files at first there is nothing to decide by, until there are.
func TestNothingAtFirst(t *testing.T) {
	f := follow(t, t.TempDir(), Options{})
	if f.count() != 0 || !strings.Contains(f.source.Problem(), "holds no file whose name ends in .yaml or .yml") {
		t.Errorf("%d configs, problem %q", f.count(), f.source.Problem())
	}
	if !strings.Contains(f.log.String(), "nothing is decided until this is set right") {
		t.Errorf("the log does not say what follows:\n%s", f.log.String())
	}
	write(t, filepath.Join(f.dir, "a.yml"), limitsOf("a"))
	f.untilDomains("a")
}

// What is not read is said, and what did not change is not told of.
func TestWhatIsRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": limitsOf("a"), "deep/er/b.yml": limitsOf("b"), "README.md": "limits", ".hidden.yaml": limitsOf("h"), ".git/c.yaml": limitsOf("c"),
	} {
		write(t, filepath.Join(dir, name), text)
	}
	f := follow(t, dir, Options{})
	f.untilDomains("a", "b")
	if !strings.Contains(f.log.String(), "README.md") || strings.Contains(f.log.String(), "hidden") {
		t.Errorf("log:\n%s", f.log.String())
	}
	now := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "a.yaml"), now, now); err != nil {
		t.Fatal(err)
	}
	if err := f.source.Load(); err != nil || f.count() != 1 {
		t.Errorf("%v; a file that was only touched was loaded again: %d times", err, f.count())
	}
	write(t, filepath.Join(dir, "deep/er/c.yaml"), limitsOf("c"))
	f.untilDomains("a", "b", "c")
}

// A limit that did not change keeps its version, so that no bucket sees a change.
func TestVersions(t *testing.T) {
	parse := func(text string, version int64) *Config {
		c, err := Parse([]File{{Name: "a.yaml", Text: []byte(text), Version: version}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	text := limitsOf("a") + "- key: k\n  value: v*\n  descriptors:\n  - key: l\n    value: m\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
	old, touched := parse(text, 1), parse(text, 2)
	changed := parse(strings.Replace(text, "requests_per_unit: 5", "requests_per_unit: 6", 1), 3)
	touched.keep(old)
	changed.keep(touched)
	versions := func(c *Config) (vs []int64) {
		c.domains["a"].root.each(func(n *node) { vs = append(vs, n.limit.version) })
		slices.Sort(vs)
		return vs
	}
	if vs := versions(touched); !slices.Equal(vs, []int64{1, 1}) {
		t.Errorf("after a touch: %v", vs)
	}
	if vs := versions(changed); !slices.Equal(vs, []int64{1, 3}) {
		t.Errorf("after a change of one: %v", vs)
	}
}

func TestSourceIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	write(t, file, limitsOf("a"))
	set := func(*Config) {}
	for want, cfg := range map[string]SourceConfig{
		"there is no directory /nowhere": {Dir: "/nowhere", Set: set},
		"is a file: name the directory":  {Dir: file, Set: set},
		`there is no algorithm "gcra"`:   {Dir: t.TempDir(), Set: set, Options: Options{Algorithm: "gcra"}},
		"nobody wants the config":        {Dir: t.TempDir()},
	} {
		if _, err := NewSource(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
