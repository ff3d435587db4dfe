package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxFile and maxFiles bound what is read of a directory that is not what was meant.
	maxFile  = 16 << 20
	maxFiles = 10_000
)

// snapshot is what a directory held at one moment.
type snapshot struct {
	files   []File
	skipped []string // files that are not read, since their names do not say that they are YAML
}

// equal reports whether the same files have the same texts, whenever they were written.
func (s *snapshot) equal(t *snapshot) bool {
	return slices.EqualFunc(s.files, t.files, func(a, b File) bool { return a.Name == b.Name && string(a.Text) == string(b.Text) })
}

// read reads all files of the directory whose names end in .yaml or .yml, those of directories below it too, in the order
// of their names. Names that begin with a dot are left out: in a mounted ConfigMap they are the versions that the visible
// names point into, each file a second time. Links to files are followed, so that those visible names are read.
func read(dir string) (*snapshot, error) {
	// A ConfigMap is changed by pointing one link elsewhere, which may happen between two files. What is found twice is
	// whole.
	const tries = 10
	before, err := readOnce(dir)
	for range tries {
		if err != nil {
			break
		}
		var after *snapshot
		if after, err = readOnce(dir); err == nil && before.equal(after) {
			return after, nil
		}
		before = after
	}
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s changes too fast to be read", dir)
}

func readOnce(dir string) (*snapshot, error) {
	s := &snapshot{}
	if err := s.walk(dir, dir); err != nil {
		return nil, err
	}
	if len(s.files) == 0 {
		return nil, fmt.Errorf("%s holds no file whose name ends in .yaml or .yml: put one there", dir)
	}
	return s, nil
}

func (s *snapshot) walk(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if err := s.walk(root, path); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(path) // follows links
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue // a link to a directory, a socket
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			s.skipped = append(s.skipped, path)
			continue
		}
		if info.Size() > maxFile || len(s.files) >= maxFiles {
			return fmt.Errorf("%s: there are more than %d files, or one of more than %d bytes: is %s the right directory?",
				path, maxFiles, maxFile, root)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s.files = append(s.files, File{Name: path, Text: text, Version: versionAt(info.ModTime())})
	}
	return nil
}

// versionAt is the version of limits that were written then; of a time to come, which would go before all changes until
// then, now.
func versionAt(t time.Time) int64 {
	if now := time.Now(); t.After(now) {
		t = now
	}
	return max(0, t.UnixMicro())
}

// isDirectory says what is wrong with the name of a directory.
func isDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a file: name the directory that it is in", dir)
	}
	return nil
}
