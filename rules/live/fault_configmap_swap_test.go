package live

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestConfigMapSwap: Kubernetes mounts a ConfigMap as links to links, and changes all files of it by one rename. Each such
// swap is one change, of the one file that was named; the directories that begin with dots are no files of ours.
func TestConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	mount := func(n int) string {
		name := fmt.Sprintf("..2026_01_01_00_00_00.%d", n)
		do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "config.yaml"), fmt.Sprint("text ", n))
		return name
	}
	do(t, os.Symlink(mount(0), filepath.Join(dir, "..data")))
	path := filepath.Join(dir, "config.yaml")
	do(t, os.Symlink(filepath.Join("..data", "config.yaml"), path))
	w := watchFile(t, path, &FileConfig{Settle: 30 * time.Millisecond, Poll: time.Hour})
	w.sees(t, "text 0", 1)
	for n := 1; n < 6; n++ {
		tmp := filepath.Join(dir, "..data_tmp")
		do(t, os.Symlink(mount(n), tmp))
		do(t, os.Rename(tmp, filepath.Join(dir, "..data")))
		do(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_01_01_00_00_00.%d", n-1))))
		w.sees(t, fmt.Sprint("text ", n), n+1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) > 0 {
		t.Errorf("errors: %v", w.errs)
	}
}
