package envoy

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing must have happened before files are read: editors and deployments write in several steps.
	quiet = 200 * time.Millisecond
	// restless is how long they may keep writing before files are read all the same.
	restless = 2 * time.Second
	// look is how often files are read without being told of a change: file systems of networks tell nothing.
	look = 10 * time.Second
)

// watch calls changed at once, and after something may have changed in the directory, until the context ends. It watches the directory
// itself, those below it, and what is around it, so that a link that is pointed elsewhere is seen: that of a ConfigMap
// within it, or the directory's own name. Where nothing can be watched, it looks now and then.
func watch(ctx context.Context, dir string, changed func()) {
	var events chan fsnotify.Event
	var failures chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		events, failures = watcher.Events, watcher.Errors
		watchAll(watcher, dir)
	}
	changed() // what changed before it was watched
	tick := time.NewTicker(look)
	defer tick.Stop()
	settled := time.NewTimer(0)
	settled.Stop()
	var since time.Time // of the first change that was not told of
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			settled.Reset(min(quiet, max(0, restless-time.Since(since))))
		case _, ok := <-failures: // more events than could be kept: looking again is what is left
			if !ok {
				failures = nil
				continue
			}
			settled.Reset(quiet)
		case <-settled.C:
			since = time.Time{}
			if watcher != nil {
				watchAll(watcher, dir) // directories that came meanwhile
			}
			changed()
		case <-tick.C:
			changed()
		}
	}
}

// watchAll adds what is to be watched. What cannot be is left to looking now and then.
func watchAll(w *fsnotify.Watcher, dir string) {
	for _, name := range []string{filepath.Dir(filepath.Clean(dir)), dir} {
		_ = w.Add(name)
		if target, err := filepath.EvalSymlinks(name); err == nil {
			_ = w.Add(target)
		}
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(target, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // it is gone again
		case !e.IsDir():
			return nil
		case path != target && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		}
		_ = w.Add(path)
		return nil
	})
}
