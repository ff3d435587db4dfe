package envoy

import (
	"os"
	"path/filepath"
	"testing"
)

// RB-020: a file that is removed takes its limits along; one that is written in two steps, or replaced as editors do, is
// read when it is whole.
func TestFilesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, limitsOf("a"))
	write(t, b, limitsOf("b"))
	f := follow(t, dir, Options{})
	f.untilDomains("a", "b")
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	f.untilDomains("a")

	half, err := os.OpenFile(a, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := limitsOf("c")
	for _, part := range []string{text[:20], text[20:]} {
		if _, err := half.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	f.untilDomains("c")

	write(t, filepath.Join(dir, ".a.yaml.swp"), "not yet")
	write(t, a+".new", limitsOf("d"))
	if err := os.Rename(a+".new", a); err != nil {
		t.Fatal(err)
	}
	f.untilDomains("d")
	for _, c := range f.sets {
		if len(c.Domains()) == 0 || c.Limits() == 0 {
			t.Errorf("a config with %d limits in %q was loaded", c.Limits(), c.Domains())
		}
	}
	// The last file stays: without any there is nothing to decide by, which nobody means.
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	f.until("the empty directory", func() bool { return f.source.Problem() != "" })
	f.untilDomains("d")
}
