package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/rules/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually calls f until it returns nil, and fails the test when that takes too long.
func eventually(tb testing.TB, what string, f func() error) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			tb.Fatalf("%s: not in time: %v", what, err)
		}
	}
}

// watching collects what a watch delivers.
type watching struct {
	mu   sync.Mutex
	docs []source.Document
	errs []error
}

func (w *watching) texts() (texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.docs {
		texts = append(texts, string(d.Text))
	}
	return texts
}

func watchFile(t *testing.T, path string, cfg *FileConfig) *watching {
	t.Helper()
	f, err := NewFile(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- f.Watch(ctx, func(d source.Document, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err != nil {
				w.errs = append(w.errs, err)
				return
			}
			w.docs = append(w.docs, d)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return w
}

// sees waits until the text was delivered, and holds the watch to having delivered so many in all.
func (w *watching) sees(t *testing.T, text string, count int) source.Document {
	t.Helper()
	eventually(t, fmt.Sprintf("%q is seen", text), func() error {
		if ts := w.texts(); len(ts) == 0 || ts[len(ts)-1] != text {
			return fmt.Errorf("seen %q", ts)
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.docs) != count {
		t.Errorf("%d documents were delivered up to %q, want %d", len(w.docs), text, count)
	}
	return w.docs[len(w.docs)-1]
}

// fails waits until so many errors were delivered, and returns the last.
func (w *watching) fails(t *testing.T, count int) (last error) {
	t.Helper()
	eventually(t, "an error is delivered", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.errs) < count {
			return fmt.Errorf("%d errors, %v", len(w.errs), w.errs)
		}
		last = w.errs[len(w.errs)-1]
		return nil
	})
	return last
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileChanges: in whatever way a file is changed, it is seen once, and as a whole. The poll is so slow that each
// change is seen by its event.
func TestFileChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	write(t, path, "one")
	w := watchFile(t, path, &FileConfig{Poll: time.Hour})
	first := w.sees(t, "one", 1)
	if first.Origin != path || time.Since(first.Time()) > time.Minute || time.Until(first.Time()) > 0 {
		t.Errorf("%+v", first)
	}

	write(t, path, "two") // in place
	w.sees(t, "two", 2)

	write(t, path+"~", "three") // as editors do
	do(t, os.Rename(path+"~", path))
	w.sees(t, "three", 3)

	do(t, os.Rename(path, path+".bak")) // as other editors do
	write(t, path, "four")
	w.sees(t, "four", 4)

	do(t, os.Chmod(path, 0o640)) // which changes nothing
	write(t, filepath.Join(dir, "other.yaml"), "other")
	write(t, path, "five")
	w.sees(t, "five", 5)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) > 0 {
		t.Errorf("errors: %v", w.errs)
	}
	for i := 1; i < len(w.docs); i++ {
		if w.docs[i].Version <= w.docs[i-1].Version {
			t.Errorf("document %d is not newer than the one before", i)
		}
	}
}

// TestFileGone: a file that goes is an error, once, and one that comes back is seen, whether it is another or not.
func TestFileGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	w := watchFile(t, path, &FileConfig{Settle: 20 * time.Millisecond, Poll: time.Hour})
	if err := w.fails(t, 1); !errors.Is(err, source.ErrNone) || !strings.Contains(err.Error(), "rules.yaml does not exist") {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "one")
	w.sees(t, "one", 1)
	do(t, os.Remove(path))
	if err := w.fails(t, 2); !errors.Is(err, source.ErrNone) {
		t.Errorf("after the file was removed: %v", err)
	}
	write(t, path, "one")
	if err := w.fails(t, 3); !errors.Is(err, source.ErrUnchanged) {
		t.Errorf("after it came back: %v", err)
	}
	do(t, os.Remove(path))
	if err := w.fails(t, 4); !errors.Is(err, source.ErrNone) {
		t.Errorf("after it was removed again: %v", err)
	}
	write(t, path, "two")
	w.sees(t, "two", 2)
	do(t, os.Remove(path))
	do(t, os.Mkdir(path, 0o700))
	if err := w.fails(t, 5); !strings.Contains(err.Error(), "is a directory: name the file") {
		t.Errorf("a directory: %v", err)
	}
}

// TestFileDirectoryReplaced: it is the path that is watched, also where the directory is another one. Only the poll can see that.
func TestFileDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "conf")
	path := filepath.Join(dir, "rules.yaml")
	do(t, os.Mkdir(dir, 0o700))
	write(t, path, "one")
	w := watchFile(t, path, &FileConfig{Settle: 10 * time.Millisecond, Poll: 20 * time.Millisecond})
	w.sees(t, "one", 1)
	do(t, os.Rename(dir, dir+".old"))
	do(t, os.Mkdir(dir, 0o700))
	write(t, path, "two")
	w.sees(t, "two", 2)
	write(t, path, "three")
	w.sees(t, "three", 3)
}

// TestFileSymlink: a link that is pointed elsewhere, and a change in the file that it leads to, are seen.
func TestFileSymlink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path, target := filepath.Join(dir, "rules.yaml"), filepath.Join(other, "target.yaml")
	write(t, target, "one")
	do(t, os.Symlink(target, path))
	w := watchFile(t, path, &FileConfig{Settle: 20 * time.Millisecond, Poll: time.Hour})
	w.sees(t, "one", 1)
	write(t, target, "two")
	w.sees(t, "two", 2)
	write(t, target+"~", "three")
	do(t, os.Rename(target+"~", target))
	w.sees(t, "three", 3)
	third := t.TempDir()
	write(t, filepath.Join(third, "x"), "four")
	do(t, os.Symlink(filepath.Join(third, "x"), path+"~"))
	do(t, os.Rename(path+"~", path))
	w.sees(t, "four", 4)
	write(t, filepath.Join(third, "x"), "five")
	w.sees(t, "five", 5)
}

// TestFileVersion: a file of the future is one of now, and an older file that is moved into place is new where the system
// tells.
func TestFileVersion(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "old")
	write(t, path, "one")
	future := time.Now().Add(1000 * time.Hour)
	do(t, os.Chtimes(path, future, future))
	w := watchFile(t, path, &FileConfig{Settle: 20 * time.Millisecond})
	first := w.sees(t, "one", 1)
	if time.Until(first.Time()) > 0 {
		t.Errorf("the version is of %v", first.Time())
	}
	write(t, old, "two")
	past := time.Now().Add(-1000 * time.Hour)
	do(t, os.Chtimes(old, past, past))
	do(t, os.Rename(old, path))
	second := w.sees(t, "two", 2)
	if changeTimeKnown(t, path) && time.Since(second.Time()) > time.Hour {
		t.Errorf("the file that was moved into place is of %v", second.Time())
	}
}

// changeTimeKnown reports whether the system tells more than when a file's contents were changed.
func changeTimeKnown(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	do(t, err)
	return changeTime(info).After(info.ModTime())
}
