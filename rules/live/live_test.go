package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// text is a file with one rule of so many per hour.
func text(n int) string {
	return fmt.Sprintf("version: 1\nrules:\n  - name: r\n    limit: %d/h\n", n)
}

const bad = "version: 1\nrules:\n  - name: r\n    limt: 1/h\n"

func newEngine(t *testing.T, file string) *rules.Engine {
	t.Helper()
	set, err := rules.Parse("start.yaml", []byte(file))
	do(t, err)
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	e, err := rules.New(store, set, nil)
	do(t, err)
	return e
}

// limit is what the engine's rule has now.
func limit(e *rules.Engine) int64 {
	d, err := e.Decide(context.Background(), tidegate.AttributeMap{}, 0)
	if err != nil {
		return -1
	}
	return d.Limit
}

// scripted is a source whose deliveries a test makes.
type scripted struct {
	deliveries chan delivery
	starts     chan struct{}
	end        error
}

type delivery struct {
	doc source.Document
	err error
}

func newScripted() *scripted {
	return &scripted{deliveries: make(chan delivery), starts: make(chan struct{}, 10)}
}

func (*scripted) Name() string { return "scripted" }

func (s *scripted) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	s.starts <- struct{}{}
	for {
		select {
		case d, ok := <-s.deliveries:
			if !ok {
				return s.end
			}
			deliver(d.doc, d.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *scripted) send(text string, version int64) {
	s.deliveries <- delivery{doc: source.Document{Text: []byte(text), Version: version, Origin: "x.yaml", By: "anna"}}
}

// counted is a Count that counts.
type counted struct {
	mu sync.Mutex
	n  map[Outcome]int
}

func (c *counted) count(_ string, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[Outcome]int{}
	}
	c.n[o]++
}

// run runs the live rules until the test ends.
func run(t *testing.T, l *Live) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// TestLive: good documents are put in place and audited, bad ones and failures leave all as it is, are logged once and
// counted.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, log, counts := newScripted(), &bytes.Buffer{}, &counted{}
		e := newEngine(t, text(1))
		l, err := New(e, src, &Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Count: counts.count})
		do(t, err)
		run(t, l)
		expect := func(what string, want int64, version int64, problem string, logged string) {
			t.Helper()
			synctest.Wait()
			st := l.Status()
			if limit(e) != want || st.Version != version || st.Loaded != (version != 0) {
				t.Errorf("%s: the limit is %d, want %d: %+v", what, limit(e), want, st)
			}
			if problem == "" && st.Problem != nil || problem != "" && (st.Problem == nil || !strings.Contains(st.Problem.Error(), problem)) {
				t.Errorf("%s: the problem is %v, want %q", what, st.Problem, problem)
			}
			if logged == "" && log.Len() > 0 || !strings.Contains(log.String(), logged) {
				t.Errorf("%s: logged %q, want %q", what, log, logged)
			}
			log.Reset()
		}
		src.send(bad, 5)
		expect("bad at first", 1, 0, "x.yaml:4:5", "limt")
		if err := l.First(context.Background()); err == nil || !strings.Contains(err.Error(), "limt") {
			t.Errorf("First: %v", err)
		}
		src.send(text(2), 10)
		expect("good", 2, 10, "", `msg="a rule has changed" rule=r before="`)
		if err := l.First(context.Background()); err != nil {
			t.Errorf("First: %v", err)
		}
		src.send(text(2), 10)
		expect("the same", 2, 10, "", "")
		src.send(bad, 20)
		expect("bad", 2, 10, "x.yaml:4:5", "level=ERROR")
		src.send(bad, 21)
		expect("bad still", 2, 10, "x.yaml:4:5", "")
		src.deliveries <- delivery{err: source.ErrUnchanged}
		expect("bad still, says the source", 2, 10, "x.yaml:4:5", "")
		src.send(text(2), 22)
		expect("as before", 2, 22, "", "again those that are in place")
		away := errors.New("away")
		for i := range 3 {
			src.deliveries <- delivery{err: away}
			expect("away", 2, 22, "away", map[bool]string{true: "cannot be had", false: ""}[i == 0])
		}
		src.deliveries <- delivery{err: source.ErrUnchanged}
		expect("back", 2, 22, "", "works again")
		src.send(text(3), 30)
		expect("good again", 3, 30, "", "level=INFO")
		src.send(text(4)+"  - {name: s, limit: 9/h}\n", 40)
		expect("two", 4, 40, "", "rule=s")
		if counts.n[Applied] != 3 || counts.n[Invalid] != 2 || counts.n[Failed] != 3 || counts.n[Unchanged] != 2 {
			t.Errorf("counted %v", counts.n)
		}
		changes := l.Changes()
		if len(changes) != 4 {
			t.Fatalf("%d changes: %+v", len(changes), changes)
		}
		c := changes[2] // the latest first: s and r of 40, r of 30, r of 10
		c.At = time.Time{}
		if c.Rule == "" || changes[3].Before != "  - name: r\n    limit: 1/h burst 1\n" && !strings.Contains(changes[3].Before, "limit: 1/h") ||
			!strings.Contains(changes[3].After, "limit: 2/h") || changes[3].Version != 10 || changes[3].By != "anna" || changes[3].Origin != "x.yaml" {
			t.Errorf("the first change: %+v", changes[3])
		}
		if changes[0].Rule != "s" || changes[0].Before != "" || changes[0].At.IsZero() || c.Version != 30 {
			t.Errorf("the changes: %+v", changes)
		}
		if d, ok := l.Document(); !ok || d.Version != 40 {
			t.Errorf("%+v", d)
		}
	})
}

// TestLiveOlder: a document that is older than the one before is a later change all the same, also for the buckets.
func TestLiveOlder(t *testing.T) {
	src := newScripted()
	e := newEngine(t, text(1))
	l, err := New(e, src, nil)
	do(t, err)
	run(t, l)
	now := time.Now().UnixMicro()
	src.send(text(100), now)
	src.send(text(50), now-1000)
	src.send(text(50), now-1000) // so that the one before is in place
	m, err := e.Match(tidegate.AttributeMap{}, 1, nil)
	do(t, err)
	if v := m[0].Charge.Version; v <= now {
		t.Errorf("the version is %d, that before was %d", v, now)
	}
	if st := l.Status(); st.Version != now-1000 {
		t.Errorf("%+v", st)
	}
}

// TestLiveReread: the source is asked anew, and a bad document is told of again.
func TestLiveReread(t *testing.T) {
	src, counts := newScripted(), &counted{}
	l, err := New(newEngine(t, text(1)), src, &Config{Count: counts.count})
	do(t, err)
	l.Reread() // before it runs: nothing to do
	run(t, l)
	<-src.starts
	src.send(bad, 1)
	src.send(bad, 1)
	l.Reread()
	<-src.starts
	src.send(bad, 1)
	src.send(bad, 1)
	counts.mu.Lock()
	defer counts.mu.Unlock()
	if counts.n[Invalid] != 2 {
		t.Errorf("counted %v", counts.n)
	}
}

// TestLiveEnds: a source that can never deliver ends Run.
func TestLiveEnds(t *testing.T) {
	src := newScripted()
	src.end = errors.New("for good")
	close(src.deliveries)
	l, err := New(newEngine(t, text(1)), src, nil)
	do(t, err)
	if err := l.Run(context.Background()); !errors.Is(err, src.end) {
		t.Errorf("Run: %v", err)
	}
	if err := l.First(context.Background()); !errors.Is(err, src.end) {
		t.Errorf("First: %v", err)
	}
}

// TestLiveReplace: programs change what is in memory, by version, and are told to edit a file.
func TestLiveReplace(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, text(1))
	l, err := New(e, NewMemory([]byte(text(1)), "the built-in example"), nil)
	do(t, err)
	run(t, l)
	do(t, l.First(ctx))
	if st := l.Status(); st.Version != 0 || st.Origin != "the built-in example" || st.Source != "memory" {
		t.Errorf("%+v", st)
	}
	if len(l.Changes()) != 0 {
		t.Errorf("changes of what is built in: %+v", l.Changes())
	}
	first, err := l.Replace(ctx, []byte(text(2)), "anna", 0)
	if err != nil || limit(e) != 2 || first == 0 {
		t.Errorf("version %d, limit %d: %v", first, limit(e), err)
	}
	if _, err := l.Replace(ctx, []byte(text(3)), "bob", 0); err == nil || limit(e) != 2 {
		t.Errorf("a conflict: limit %d: %v", limit(e), err)
	} else if c, ok := errors.AsType[*source.ConflictError](err); !ok || c.Current != first {
		t.Errorf("a conflict: %v", err)
	}
	if _, err := l.Replace(ctx, []byte(bad), "bob", first); err == nil {
		t.Error("a bad text is taken")
	} else if _, ok := errors.AsType[rules.Errors](err); !ok {
		t.Errorf("a bad text: %v", err)
	}
	second, err := l.Replace(ctx, []byte("version: 1\nrules:\n  - name: r\n    limit: unlimited until 1h\n"), "bob", first)
	if err != nil || second <= first {
		t.Errorf("version %d after %d: %v", second, first, err)
	}
	if r := e.Set().Rule("r"); r.Limit.Then.Rate != 2 || time.Until(r.Limit.Until) > time.Hour || time.Until(r.Limit.Until) < 59*time.Minute {
		t.Errorf("unlimited until %v, then %v", r.Limit.Until, r.Limit.Then)
	}
	if c := l.Changes()[0]; c.By != "bob" || c.Rule != "r" {
		t.Errorf("the last change: %+v", c)
	}

	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, text(5))
	f, err := NewFile(path, nil)
	do(t, err)
	lf, err := New(e, f, nil)
	do(t, err)
	run(t, lf)
	do(t, lf.First(ctx))
	_, err = lf.Replace(ctx, []byte(text(6)), "anna", source.AnyVersion)
	if !errors.Is(err, source.ErrReadOnly) || !strings.Contains(err.Error(), path) || limit(e) != 5 {
		t.Errorf("a file: limit %d, %v", limit(e), err)
	}
}

// TestLiveUnderLoad: while takes go on, each is decided by all of one document: two rules that are changed together are
// never seen apart.
func TestLiveUnderLoad(t *testing.T) {
	both := func(n int) string {
		return fmt.Sprintf("version: 1\nrules:\n  - {name: a, limit: %d/h burst 1000}\n  - {name: b, limit: %d/h burst 1000}\n", n, n)
	}
	src := newScripted()
	e := newEngine(t, both(1))
	l, err := New(e, src, nil)
	do(t, err)
	run(t, l)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var matched []rules.Matched
			for {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				if matched, err = e.Match(tidegate.AttributeMap{}, 1, matched[:0]); err != nil || len(matched) != 2 {
					t.Errorf("%d rules, %v", len(matched), err)
					return
				}
				if a, b := matched[0].Charge.Limit.Rate, matched[1].Charge.Limit.Rate; a != b {
					t.Errorf("limits %d and %d", a, b)
					return
				}
				if _, err := e.Take(context.Background(), matched); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 200 {
		src.send(both(n+2), int64(n+2))
	}
	close(stop)
	wg.Wait()
}

func TestNewRefuses(t *testing.T) {
	e := newEngine(t, text(1))
	for name, f := range map[string]func() (*Live, error){
		"no engine": func() (*Live, error) { return New(nil, newScripted(), nil) },
		"no source": func() (*Live, error) { return New(e, nil, nil) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAudit: the last changes are kept, the latest first, and long ones in part.
func TestAudit(t *testing.T) {
	a := NewAudit(3)
	if len(a.Changes()) != 0 {
		t.Error("it is not empty at first")
	}
	for i := range 5 {
		a.Record(Change{Rule: fmt.Sprint(i), After: strings.Repeat("é", maxChange)})
		if got := a.Changes(); len(got) != min(i+1, 3) || got[0].Rule != fmt.Sprint(i) || got[len(got)-1].Rule != fmt.Sprint(max(0, i-2)) {
			t.Errorf("after %d: %+v", i, got)
		}
	}
	if after := a.Changes()[0].After; len(after) > maxChange+3 || !strings.HasSuffix(after, "é…") {
		t.Errorf("%d bytes are kept", len(after))
	}
}
