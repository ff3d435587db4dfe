package main

import (
	"errors"
	"fmt"
	"os"
)

// picture is the file that runs are drawn into. It is opened before them, so that one that cannot be written is known at once.
type picture struct {
	file    *os.File
	created bool
	written bool
}

// openPicture opens the file; there is none without a name.
func openPicture(name string) (*picture, error) {
	p := &picture{}
	if name == "" {
		return p, nil
	}
	_, err := os.Stat(name)
	p.created = errors.Is(err, os.ErrNotExist)
	if p.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644); err != nil { //nolint:gosec // a picture is no secret
		return nil, fmt.Errorf("--svg: %w", err)
	}
	return p, nil
}

func (p *picture) write(b []byte) error {
	if p.file == nil {
		return nil
	}
	p.written = true
	err := p.file.Truncate(0)
	if info, e := p.file.Stat(); e == nil && !info.Mode().IsRegular() {
		err = nil // a pipe has no length
	}
	if err == nil {
		_, err = p.file.Write(b)
	}
	if err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	return nil
}

// discard closes the file, and deletes it if this program made it and wrote nothing into it.
func (p *picture) discard() {
	if p.file == nil {
		return
	}
	p.file.Close()
	if p.created && !p.written {
		os.Remove(p.file.Name())
	}
}
