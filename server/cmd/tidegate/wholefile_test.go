package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

// A file takes the place of the former one when it is whole, and only then; nothing else stays in the directory.
func TestWholeFile(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "report.html"), filepath.Join(dir, "link.html")
	if err := os.WriteFile(name, []byte("a former one that is longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	holds := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(name); string(b) != want || err != nil {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
		if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) > 0 {
			t.Errorf("left behind: %v", names)
		}
	}
	begin := func(name string) *wholeFile {
		t.Helper()
		f, err := beginFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	begin(name).discard()
	holds("a former one that is longer")
	broken := errors.New("broken")
	if err := begin(name).finish(func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	holds("a former one that is longer")
	f := begin(link)
	if err := f.finish(writes("report")); err != nil {
		t.Error(err)
	}
	f.discard()
	holds("report")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what only its owner could read now has the mode %v: %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if err := begin(os.DevNull).finish(writes("report")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device was replaced: %v", err)
	}
	if err := begin("").finish(writes("report")); err != nil {
		t.Error(err)
	}
	if _, err := beginFile(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
	if _, err := beginFile(filepath.Join(dir, "none", "report.html")); err == nil {
		t.Error("a file in a directory that is not there was begun")
	}
}
