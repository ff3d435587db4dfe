//go:build unix

package live

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidegate-go/tidegate/rules/source"
)

// TestFileOdd: what is no file of rules is an error that says so, and does not hang.
func TestFileOdd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	w := watchFile(t, path, nil)
	if err := w.fails(t, 1); !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	big := filepath.Join(t.TempDir(), "big")
	write(t, big, "")
	do(t, os.Truncate(big, source.MaxText+1))
	if err := watchFile(t, big, nil).fails(t, 1); !strings.Contains(err.Error(), "at most") {
		t.Errorf("a big file: %v", err)
	}
	for _, bad := range []struct {
		path string
		cfg  *FileConfig
	}{{"", nil}, {"x", &FileConfig{Settle: -1}}, {"x", &FileConfig{Poll: -1}}} {
		if _, err := NewFile(bad.path, bad.cfg); err == nil {
			t.Errorf("NewFile(%q, %+v) is taken", bad.path, bad.cfg)
		}
	}
}
