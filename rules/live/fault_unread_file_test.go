package live

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/tidegate-go/tidegate/rules/source"
)

// A file that could not be read once, though it is there, is read again without another change.
func TestFileThatCouldNotBeReadIsReadAgain(t *testing.T) {
	told := 0
	r := fileReader{file: &File{path: t.TempDir(), name: "rules.yaml"}, deliver: func(_ source.Document, err error) {
		told++
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory is read: %v", err)
		}
	}}
	for i := range 3 {
		if !r.look() {
			t.Errorf("look %d: nothing to read", i)
		}
		if r.read() {
			t.Errorf("read %d: it has not settled", i)
		}
	}
	if told != 1 {
		t.Errorf("told %d times of the same fault", told)
	}
}
