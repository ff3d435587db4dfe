package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/tidegate-go/tidegate/rules/source"
)

// FileConfig says how a [File] is watched. The zero FileConfig, like a nil one, is the documented default.
type FileConfig struct {
	// Settle is how long a file must have been left alone before it is read, so that one which is being written is not
	// taken for a shorter one. Only the first rules of it are read at once. Default: 100 ms.
	Settle time.Duration
	// Poll is how often it is looked at whether or not the system tells of a change: some file systems tell of none.
	// Default: 2 s.
	Poll time.Duration
}

// File is a source of rules in one file, which programs cannot change. Create it with [NewFile].
//
// It is the directory that is watched, and that of the file which a symbolic link leads to: so it works with editors that
// write another file and rename it, and with the links of a Kubernetes ConfigMap. A file that is gone or cannot be read
// leaves the rules as they are.
//
// The version is the time of the file's last change: where the system tells, that also of its name and its place.
// A time in the future is taken for now.
type File struct {
	path string // absolute, so that it stays the same file
	name string // as it was given
	cfg  FileConfig
	// had says that the file was delivered, so that somebody has rules of it.
	had atomic.Bool
}

var _ source.Source = (*File)(nil)

// NewFile returns the file of the path as a source. It need not exist yet. A nil config is the default.
func NewFile(path string, cfg *FileConfig) (*File, error) {
	if path == "" {
		return nil, errors.New("live: the path of the file is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	f := &File{path: abs, name: path}
	if cfg != nil {
		f.cfg = *cfg
	}
	if f.cfg.Settle < 0 || f.cfg.Poll < 0 {
		return nil, fmt.Errorf("live: Settle %v and Poll %v must not be negative: leave them 0 for the default", f.cfg.Settle, f.cfg.Poll)
	}
	if f.cfg.Settle == 0 {
		f.cfg.Settle = 100 * time.Millisecond
	}
	if f.cfg.Poll == 0 {
		f.cfg.Poll = 2 * time.Second
	}
	return f, nil
}

// Name is "file".
func (*File) Name() string { return "file" }

// Origin is the path as it was given.
func (f *File) Origin() string { return f.name }

// Watch implements [source.Source].
func (f *File) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	w := newWatcher(f.path)
	defer w.close()
	r := &fileReader{file: f, deliver: deliver}
	r.seen, _ = os.Stat(f.path)
	again := true
	if !f.had.Load() {
		again = r.read() // at once, whether or not it has settled: there are no other rules yet
	} // else it is watched anew, since somebody asks, perhaps while it is being written: the rules there are serve until it has settled
	settle := time.NewTimer(f.cfg.Settle)
	if !again {
		settle.Stop()
	}
	defer settle.Stop()
	poll := time.NewTicker(f.cfg.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-w.events:
			if w.concerns(e) && r.look() {
				settle.Reset(f.cfg.Settle)
			}
		case err := <-w.errors: // such as that more has happened than it could tell of
			if err != nil && r.look() {
				settle.Reset(f.cfg.Settle)
			}
		case <-poll.C:
			w.follow()
			if r.look() {
				settle.Reset(f.cfg.Settle)
			}
		case <-settle.C:
			w.follow() // before it is read: else a change between the two would be in nobody's sight
			if r.look() || r.read() {
				settle.Reset(f.cfg.Settle)
			}
		}
	}
}

// fileReader reads a file when it has changed and was left alone since.
type fileReader struct {
	file    *File
	deliver func(source.Document, error)

	seen   fs.FileInfo // as it was at the last look; nil where there is none
	text   []byte      // that was delivered last; nil before
	failed string      // the error that was delivered after that
}

// look reports whether the file is another than at the last look.
func (r *fileReader) look() bool {
	info, _ := os.Stat(r.file.path) // without one it is nil
	other := !sameFile(info, r.seen)
	r.seen = info
	return other
}

// read delivers the file as it is, if that is new, and reports whether it changed meanwhile, so that it must be read later.
func (r *fileReader) read() (again bool) {
	text, info, err := readFile(r.file.path)
	switch {
	case errors.Is(err, errChanged) || err == nil && !sameFile(info, r.seen):
		r.look()
		return true
	case err != nil:
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s does not exist", source.ErrNone, r.file.name)
		} else {
			r.seen = nil // the next look finds it new, and it is read again
		}
		if r.failed != err.Error() {
			r.failed = err.Error()
			r.deliver(source.Document{}, err)
		}
		return false
	case r.text != nil && bytes.Equal(text, r.text):
		if r.failed != "" {
			r.failed = ""
			r.deliver(source.Document{}, source.ErrUnchanged)
		}
		return false
	}
	r.text, r.failed = text, ""
	r.file.had.Store(true)
	version := min(changeTime(info).UnixMicro(), time.Now().UnixMicro())
	r.deliver(source.Document{Text: text, Version: max(version, 1), Origin: r.file.name}, nil)
	return false
}

// errChanged says that a file changed while it was read.
var errChanged = errors.New("the file changed while it was read")

// readFile reads a file that nobody writes meanwhile.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	before, err := os.Stat(path) // before it is opened, which waits where it is a pipe
	switch {
	case err != nil:
		return nil, nil, err
	case before.IsDir():
		return nil, nil, fmt.Errorf("%s is a directory: name the file in it", path)
	case !before.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is not a regular file: its changes could not be seen", path)
	case before.Size() > source.MaxText:
		return nil, nil, source.TooLong(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, source.MaxText+1))
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !sameFile(before, after) || int64(len(text)) != after.Size() {
		return nil, nil, errChanged
	}
	return text, after, nil
}

// sameFile reports whether two looks found the same file, unchanged, or both none.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a).Equal(changeTime(b))
}

// watcher tells of changes in the directories that a path leads through.
type watcher struct {
	path   string
	real   string // what the links of path lead to
	fs     *fsnotify.Watcher
	events <-chan fsnotify.Event // nil where the system cannot watch: then there is the poll
	errors <-chan error
}

func newWatcher(path string) *watcher {
	w := &watcher{path: path}
	if fw, err := fsnotify.NewWatcher(); err == nil {
		w.fs, w.events, w.errors = fw, fw.Events, fw.Errors
	}
	w.follow()
	return w
}

// follow watches the directories that the path leads to now. A directory that there is not, or that cannot be watched,
// is left to the poll.
func (w *watcher) follow() {
	if w.fs == nil {
		return
	}
	dir := filepath.Dir(w.path)
	_ = w.fs.Add(dir)
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		if old := filepath.Dir(w.real); w.real != "" && old != dir && old != filepath.Dir(target) {
			_ = w.fs.Remove(old) // it may be gone
		}
		w.real = target
		_ = w.fs.Add(filepath.Dir(target))
	}
}

// concerns reports whether an event may be a change of the file: one of its own, or that a name has come or gone on the
// way to it. Of what happens to others' contents there may be plenty.
func (w *watcher) concerns(e fsnotify.Event) bool {
	return e.Name == w.path || e.Name == w.real || e.Has(fsnotify.Create) || e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove)
}

func (w *watcher) close() {
	if w.fs != nil {
		_ = w.fs.Close()
	}
}
