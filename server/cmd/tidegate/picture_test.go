package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A device has no length to set.
func TestPictureIsADevice(t *testing.T) {
	p, err := openPicture(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer p.discard()
	if err := p.write([]byte("picture")); err != nil {
		t.Error(err)
	}
}

// A picture takes the place of a longer one, and one that was never drawn leaves the old one alone.
func TestPictureReplaces(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.svg")
	if err := os.WriteFile(name, []byte("a longer picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openPicture(name)
	if err != nil {
		t.Fatal(err)
	}
	p.discard()
	if b, _ := os.ReadFile(name); string(b) != "a longer picture" {
		t.Errorf("%q", b)
	}
	p, err = openPicture(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write([]byte("picture")); err != nil {
		t.Fatal(err)
	}
	p.discard()
	if b, _ := os.ReadFile(name); string(b) != "picture" {
		t.Errorf("%q", b)
	}
}
