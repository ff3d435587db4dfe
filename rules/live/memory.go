package live

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate/rules/source"
)

// Memory is a source whose rules are part of a program, and that programs can change as long as it runs: nothing is kept
// beyond, and no other process is told. Create it with [NewMemory].
type Memory struct {
	mu      sync.Mutex
	doc     source.Document
	former  int64         // the version that it replaced; -1: it replaced none
	changed chan struct{} // closed, and another, with each change
	now     func() time.Time
}

var (
	_ source.Source = (*Memory)(nil)
	_ source.Editor = (*Memory)(nil)
)

// NewMemory returns a source that begins with the text, under version 0. Origin says where that is from: "the built-in
// example".
func NewMemory(text []byte, origin string) *Memory {
	return &Memory{doc: source.Document{Text: bytes.Clone(text), Origin: origin}, former: -1, changed: make(chan struct{}), now: time.Now}
}

// Name is "memory".
func (*Memory) Name() string { return "memory" }

// Origin is what NewMemory was told.
func (m *Memory) Origin() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc.Origin
}

// Watch implements [source.Source].
func (m *Memory) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	for {
		m.mu.Lock()
		doc, changed := m.doc, m.changed
		m.mu.Unlock()
		deliver(doc, nil)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Pull implements [source.Editor].
func (m *Memory) Pull(context.Context) (source.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc, nil
}

// Push implements [source.Editor]. The version of the rules that it began with is 0.
func (m *Memory) Push(_ context.Context, text []byte, by string, expect int64) (int64, error) {
	if err := source.CheckPush(text, by, expect); err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	there := bytes.Equal(text, m.doc.Text)
	switch {
	case there && (expect == source.AnyVersion || expect == m.doc.Version || expect == m.former):
		return m.doc.Version, nil
	case expect != source.AnyVersion && expect != m.doc.Version:
		return 0, &source.ConflictError{Expected: expect, Current: m.doc.Version}
	}
	m.doc.Text, m.doc.By = bytes.Clone(text), by
	m.former, m.doc.Version = m.doc.Version, source.NextVersion(m.now().UnixMicro(), m.doc.Version)
	close(m.changed)
	m.changed = make(chan struct{})
	return m.doc.Version, nil
}
