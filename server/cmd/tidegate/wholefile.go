package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// wholeFile is a file that appears when all of it was written, in the place of a former one. It is begun before what it is about, so
// that one that cannot be written is known at once.
type wholeFile struct {
	name string
	file *os.File    // beside the name, until it is done; nil where there is nothing to write
	same bool        // whether it is what the name names already: a device or a pipe, which nothing can take the place of
	mode fs.FileMode // of a former file; 0 where there is none
}

// beginFile begins a file; there is none without a name.
func beginFile(name string) (*wholeFile, error) {
	f := &wholeFile{name: name}
	if name == "" {
		return f, nil
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", name)
	case err == nil && !info.Mode().IsRegular():
		f.same = true
		f.file, err = os.OpenFile(name, os.O_WRONLY, 0)
	default:
		if err == nil {
			f.mode = info.Mode().Perm() // who was not to read it is not to read the next one
		}
		if to, err := filepath.EvalSymlinks(name); err == nil {
			f.name = to // what a link leads to is replaced, not the link
		}
		temporary := filepath.Join(filepath.Dir(f.name), ".tidegate-"+rand.Text())
		f.file, err = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // as far as the umask allows
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// finish writes the file and puts it in its place.
func (f *wholeFile) finish(write func(io.Writer) error) error {
	if f.file == nil {
		return nil
	}
	err := write(f.file)
	if err == nil && f.mode != 0 {
		err = f.file.Chmod(f.mode)
	}
	err = errors.Join(err, f.file.Close())
	if !f.same {
		if err == nil {
			err = os.Rename(f.file.Name(), f.name)
		}
		if err != nil {
			_ = os.Remove(f.file.Name())
		}
	}
	f.file = nil
	return err
}

// discard leaves no trace of a file that was not finished.
func (f *wholeFile) discard() {
	if f.file == nil {
		return
	}
	_ = f.file.Close()
	if !f.same {
		_ = os.Remove(f.file.Name())
	}
	f.file = nil
}
