package live

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// deliver takes what the source has.
func (l *Live) deliver(doc source.Document, err error) {
	l.change.Lock()
	defer l.change.Unlock()
	switch {
	case errors.Is(err, source.ErrUnchanged):
		if l.bad.text != nil { // the document is still the bad one
			l.stillBad()
		} else {
			l.well("the source of the rules works again")
		}
	case err != nil:
		l.failed(err)
	case l.overtaken(doc):
		l.rewatch()
		return
	default:
		l.apply(doc)
	}
	l.look()
}

// look wakes who waits for news.
func (l *Live) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	close(l.looked)
	l.looked = make(chan struct{})
}

// overtaken reports whether a document may have been read before a change that went past the watch, by Replace, so that it would
// undo that: it is older than what is in place, and the watch began before the change was made.
//
// Such a document is not put in place, and the source is watched anew. What a watch delivers that began after the change is what
// is there, and counts however old it is: a server that lost its last changes, or all of them and the clock that its versions came
// from, must not keep replicas from the rules that it has now. Within one watch the order of deliveries is that of the changes,
// so that without a Replace nothing is doubted, nor are sources whose versions may go backwards, such as files.
func (l *Live) overtaken(doc source.Document) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status.Loaded && doc.Version < l.applied.Version && l.watch == l.passed
}

// apply puts the rules of a document in place, if they are good and others than before. Its callers hold l.change.
func (l *Live) apply(doc source.Document) {
	switch {
	case l.status.Loaded && bytes.Equal(doc.Text, l.applied.Text):
		l.bad = badDocument{}
		l.mu.Lock()
		l.applied.Version = doc.Version // a file that was touched, or a server that lost what came after
		l.status.Version = l.applied.Version
		l.mu.Unlock()
		l.count(Unchanged)
		l.well("the rules at the source are again those that are in place")
		return
	case l.bad.told && bytes.Equal(doc.Text, l.bad.text):
		l.stillBad()
		return
	}
	set, err := rules.Parse(doc.Origin, doc.Text)
	if err != nil {
		l.invalid(doc, err)
		return
	}
	l.bad, l.failing = badDocument{}, false
	var at time.Time
	if doc.Version != 0 {
		at = doc.Time()
	}
	// A document may be older than the one before it, where a server has lost its last changes: the engine sees to it that
	// it counts as a later change all the same.
	changes := l.engine.Swap(set, at)
	now := l.cfg.Now()
	l.mu.Lock()
	l.applied = doc
	l.status = Status{
		Source: l.source.Name(), Loaded: true, Version: doc.Version, Origin: doc.Origin, By: doc.By,
		Applied: now, Rules: len(set.Rules()),
	}
	l.mu.Unlock()
	l.count(Applied)
	l.cfg.Logger.Info("the rules are in place", slog.String("source", l.source.Name()), slog.String("origin", doc.Origin),
		slog.Int64("version", doc.Version), slog.String("by", doc.By), slog.Int("rules", len(set.Rules())), slog.Int("changed", len(changes)))
	l.audit(doc, changes, now)
}

// invalid takes note of a bad document.
func (l *Live) invalid(doc source.Document, err error) {
	l.bad, l.failing = badDocument{bytes.Clone(doc.Text), err, true}, false
	l.setProblem(err)
	l.count(Invalid)
	l.cfg.Logger.Error("the change of the rules is bad, and is not made", slog.String("source", l.source.Name()), slog.String("origin", doc.Origin),
		slog.Int64("version", doc.Version), slog.String("by", doc.By), slog.Int("mistakes", mistakes(err)), slog.String("error", firstLines(err)))
}

// stillBad takes note that the source has the bad document that was told of before, after an outage, too: what stands in the way is
// that again.
func (l *Live) stillBad() {
	if !l.failing {
		return
	}
	l.failing = false
	l.setProblem(l.bad.err)
	l.cfg.Logger.Warn("the source of the rules works again, and what it has is bad still", slog.String("source", l.source.Name()),
		slog.Int("mistakes", mistakes(l.bad.err)), slog.String("error", firstLines(l.bad.err)))
}

// failed takes note of a source that fails.
func (l *Live) failed(err error) {
	l.count(Failed)
	l.failing = true
	first := l.status.Problem == nil || l.status.Problem.Error() != err.Error()
	l.setProblem(err)
	if first {
		l.cfg.Logger.Warn("the rules cannot be had from their source, and stay as they are", slog.String("source", l.source.Name()), slog.Any("error", err))
	}
}

// well takes note that nothing stands in the way any more.
func (l *Live) well(how string) {
	l.failing = false
	if l.status.Problem != nil && l.status.Loaded {
		l.setProblem(nil)
		l.cfg.Logger.Info(how, slog.String("source", l.source.Name()), slog.Int64("version", l.status.Version))
	}
}

func (l *Live) setProblem(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Problem = err
}

func (l *Live) count(o Outcome) {
	if l.cfg.Count != nil {
		l.cfg.Count(l.source.Name(), o)
	}
}
