package live

import (
	"bytes"
	"context"
	"errors"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// pushes is how often Replace tries, for one who expects no version, while others push.
const pushes = 10

// Replace changes the rules at their source, where programs may, and here at once. Expect and by are as in
// [source.Editor.Push]; durations after "until" begin now, and what counts when they end is what the version has that is replaced,
// which may be a later one than is in place here. The error is [rules.Errors] of a text that is bad, a
// [*source.ReadOnlyError], a [*source.ConflictError], or what the source failed with. It returns the version that the
// rules have now.
func (l *Live) Replace(ctx context.Context, text []byte, by string, expect int64) (int64, error) {
	editor, ok := l.source.(source.Editor)
	if !ok {
		return 0, &source.ReadOnlyError{Origin: l.origin()}
	}
	for try := 1; ; try++ {
		was, former, err := l.replaced(ctx, editor)
		if err != nil {
			return 0, err
		}
		absolute, err := rules.Absolute("rules", text, l.cfg.Now(), former)
		if err != nil {
			return 0, err
		}
		replacing := expect
		if expect == source.AnyVersion {
			replacing = was
		}
		version, err := editor.Push(ctx, absolute, by, replacing)
		if _, conflict := errors.AsType[*source.ConflictError](err); conflict && expect == source.AnyVersion && try < pushes {
			continue // another version is replaced, which may have other limits
		}
		if err != nil {
			return 0, err
		}
		l.passBy(source.Document{Text: absolute, Version: version, Origin: l.origin(), By: by})
		return version, nil
	}
}

// replaced returns the version that is at the source, and its rules; those in place where it has none, or bad ones. What is newer
// than that in place is put in place first, so that the audit says of each change who made it.
func (l *Live) replaced(ctx context.Context, editor source.Editor) (version int64, set *rules.Set, err error) {
	doc, err := editor.Pull(ctx)
	if errors.Is(err, source.ErrNone) {
		return 0, l.engine.Set(), nil
	}
	if err != nil {
		return 0, nil, err
	}
	l.passBy(doc)
	l.change.Lock()
	defer l.change.Unlock()
	if l.status.Loaded && bytes.Equal(doc.Text, l.applied.Text) {
		return doc.Version, l.engine.Set(), nil
	}
	if set, err = rules.Parse(doc.Origin, doc.Text); err != nil {
		set = l.engine.Set()
	}
	return doc.Version, set, nil
}

// passBy puts a document in place that is newer than what is, past the watch; one that is not, another was faster than.
func (l *Live) passBy(doc source.Document) {
	l.change.Lock()
	defer l.change.Unlock()
	if doc.Version <= l.applied.Version {
		return
	}
	l.apply(doc)
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed = l.watch
}
