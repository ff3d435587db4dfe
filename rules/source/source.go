package source

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Document is the text of a set of rules as it was at one moment at its source.
type Document struct {
	// Text is the file of rules.
	Text []byte
	// Version is when it was changed at its source, in microseconds since the Unix epoch; 0 if there is nothing yet.
	// Buckets keep the limit of the newest version, so that a later change must have a higher one.
	Version int64
	// Origin says where it is from, for messages and the log: a path, or an address without secrets.
	Origin string
	// By says who changed it; empty where the source does not know.
	By string
}

// Time returns when the document was changed at its source.
func (d *Document) Time() time.Time { return time.UnixMicro(d.Version) }

// A Source delivers rules and their changes.
type Source interface {
	// Name says where the rules come from, in messages and metrics: "file", "redis", …; one word without secrets.
	Name() string

	// Watch delivers the document as it is now, and again each time it has changed, until ctx ends; then it returns the
	// context's error, and any other error only if it can never deliver. It calls deliver from one goroutine, and never
	// after it has returned.
	//
	// Where it cannot get the document it delivers the error, each time that it has tried and failed, and goes on trying,
	// with pauses; when it works again it delivers [ErrUnchanged] or the document. One that there is not yet, or no longer,
	// is [ErrNone]. A document that is delivered once more, unchanged, does no harm. Watch may be called again when it has
	// returned.
	Watch(ctx context.Context, deliver func(Document, error)) error
}

// AnyVersion makes [Editor.Push] replace whatever is there.
const AnyVersion = -1

// An Editor is a source whose rules programs can change. One that is a [Source] but no Editor is read-only.
type Editor interface {
	// Pull returns the document as it is now, or [ErrNone].
	Pull(ctx context.Context) (Document, error)

	// Push replaces the document by the text if its version is still expect, of which 0 says that there is none yet and
	// [AnyVersion] that it does not matter. It is a [*ConflictError] if it is not. By says who changes it: one line.
	// It returns the version that the text has now. A text that is there already stays, with its version, if that is expect, or if
	// expect is what it replaced: so a push can be repeated when its answer was lost, and is no conflict with itself.
	//
	// The text is not read: whoever pushes has made sure that it is good.
	Push(ctx context.Context, text []byte, by string, expect int64) (version int64, err error)
}

// ErrNone says that the source has no rules: they were never pushed, or they are gone.
var ErrNone = errors.New("there are no rules")

// ErrUnchanged says that the document is the one that was delivered last.
var ErrUnchanged = errors.New("the rules are unchanged")

// ErrReadOnly says that programs cannot change the rules of a source.
var ErrReadOnly = errors.New("the rules are read-only")

// A ReadOnlyError says what to do instead of changing rules that are read-only. It is [ErrReadOnly].
type ReadOnlyError struct {
	Origin string // the file, where it is one
}

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("the rules come from %s, which programs cannot change: edit it there", e.Origin)
}

// Is reports whether the target is ErrReadOnly.
func (e *ReadOnlyError) Is(target error) bool { return target == ErrReadOnly }

// A ConflictError says that the rules were changed meanwhile, so that a push was not carried out.
type ConflictError struct {
	Expected int64 // the version that was to be replaced; 0: none
	Current  int64 // the version that is there; 0: none
}

func (e *ConflictError) Error() string {
	switch {
	case e.Expected == 0:
		return fmt.Sprintf("there are rules already, version %d: pull them, and push with that version expected", e.Current)
	case e.Current == 0:
		return fmt.Sprintf("version %d was expected, but there are no rules any more", e.Expected)
	}
	return fmt.Sprintf("version %d was expected, but version %d is there: pull it, and make the change to that", e.Expected, e.Current)
}
