package live

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHalfWrittenFile: a file that is written slowly, in place, is read once it is whole: what is there before may be a good
// file with fewer rules.
func TestHalfWrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "0")
	w := watchFile(t, path, &FileConfig{Settle: 500 * time.Millisecond, Poll: time.Hour})
	w.sees(t, "0", 1)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	do(t, err)
	whole := ""
	for i := range 15 { // slower than the file settles, in all
		line := fmt.Sprintf("%d;", i)
		_, err := f.WriteString(line)
		do(t, err)
		whole += line
		time.Sleep(50 * time.Millisecond)
	}
	do(t, f.Close())
	w.sees(t, whole, 2)
}
