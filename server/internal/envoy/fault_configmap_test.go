package envoy

import (
	"os"
	"path/filepath"
	"testing"
)

// RB-019: a mounted ConfigMap holds each file twice, behind links, and is changed by pointing one link elsewhere. Each file
// is read once, and the swap is one reload, of the whole.
func TestConfigMapIsSwapped(t *testing.T) {
	dir := t.TempDir()
	version := func(name, a, b string) {
		write(t, filepath.Join(dir, name, "a.yaml"), limitsOf(a))
		write(t, filepath.Join(dir, name, "b.yaml"), limitsOf(b))
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version("..2026_01_01_00_00_00.1", "a1", "b1")
	link("..2026_01_01_00_00_00.1", "..data")
	link("..data/a.yaml", "a.yaml")
	link("..data/b.yaml", "b.yaml")
	f := follow(t, dir, Options{})
	f.untilDomains("a1", "b1")

	version("..2026_01_01_00_00_00.2", "a2", "b2")
	link("..2026_01_01_00_00_00.2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "..2026_01_01_00_00_00.1")); err != nil {
		t.Fatal(err)
	}
	f.untilDomains("a2", "b2")
	if n := f.count(); n != 2 {
		t.Errorf("%d configs, want 2: one before the swap and one after", n)
	}
}

// The whole directory may be a link that is pointed elsewhere, as RUNTIME_ROOT is.
func TestDirectoryIsSwapped(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "v1/config/a.yaml"), limitsOf("a1"))
	write(t, filepath.Join(root, "v2/config/a.yaml"), limitsOf("a2"))
	current := filepath.Join(root, "current")
	if err := os.Symlink("v1/config", current); err != nil {
		t.Fatal(err)
	}
	f := follow(t, current, Options{})
	f.untilDomains("a1")
	if err := os.Symlink("v2/config", current+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(current+".new", current); err != nil {
		t.Fatal(err)
	}
	f.untilDomains("a2")
}
