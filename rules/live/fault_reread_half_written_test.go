package live

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// On SIGHUP a file was read at once, also while it was being written: what is there then may be a good file with fewer rules. It is
// read once it has settled, as after any change.
func TestFaultRereadHalfWrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "version: 1\nrules:\n  - {name: r, limit: 1/h}\n")
	e := newEngine(t, text(1))
	f, err := NewFile(path, &FileConfig{Settle: 500 * time.Millisecond, Poll: time.Hour})
	do(t, err)
	l, err := New(e, f, nil)
	do(t, err)
	run(t, l)
	do(t, l.First(t.Context()))
	first := l.Status().Version
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	do(t, err)
	_, err = file.WriteString("version: 1\nrules:\n")
	do(t, err)
	for i := range 10 { // each of these is a good file
		_, err := fmt.Fprintf(file, "  - {name: r%d, limit: 1/h}\n", i)
		do(t, err)
		l.Reread()
		time.Sleep(50 * time.Millisecond)
	}
	do(t, file.Close())
	l.Reread()
	var versions map[int64]int
	eventually(t, "the file is read", func() error {
		versions = map[int64]int{}
		for _, c := range l.Changes() { // which are told of after they are made
			if c.Version != first {
				versions[c.Version]++
			}
		}
		if n := len(e.Set().Rules()); n != 10 || len(versions) == 0 {
			return fmt.Errorf("%d rules, changes by version %v", n, versions)
		}
		return nil
	})
	if len(versions) != 1 {
		t.Errorf("it was read while it was being written: changes by version %v", versions)
	}
}
