package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// Config says how a [Live] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Logger is told of changes, of bad documents and of a source that fails: once of each, not as often as it is tried.
	// Default: none, nothing is logged.
	Logger *slog.Logger
	// Audit keeps what changed. Default: one of its own, of the last 500 changes of a rule.
	Audit *Audit
	// Count is told what became of each document, for a counter by source and outcome. It must be quick.
	// Default: none.
	Count func(source string, outcome Outcome)
	// Now is the clock of the audit, and that by which durations end in what [Live.Replace] is given. Default: time.Now.
	Now func() time.Time
}

// Outcome is what became of a document, or of an attempt to get one.
type Outcome string

// The outcomes.
const (
	Applied   Outcome = "applied"   // it is what takes are decided by now
	Unchanged Outcome = "unchanged" // it was already
	Invalid   Outcome = "invalid"   // it is bad, and the rules before stay
	Failed    Outcome = "failed"    // the source failed, and the rules before stay
)

// An Engine is what the rules are for: a [*rules.Engine].
type Engine interface {
	// Set returns the rules that takes are decided by.
	Set() *rules.Set
	// Swap puts other rules in their place, and returns what changed. The limits that are others than before count as a
	// later change than those, whatever the time.
	Swap(set *rules.Set, at time.Time) []rules.Change
}

var _ Engine = (*rules.Engine)(nil)

// Live keeps the rules of an engine as they are at their source. Create it with [New], and let it [Live.Run].
type Live struct {
	engine Engine
	source source.Source
	cfg    Config

	change  sync.Mutex // is held while a document is read, one at a time
	refused []byte     // the bad text that was told of last

	mu      sync.Mutex      // is held for a moment; what it guards is written under both
	applied source.Document // what takes are decided by
	status  Status
	looks   int           // how often the source has delivered something
	told    int           // how often it had when First returned
	looked  chan struct{} // closed, and another, with each
	again   context.CancelFunc
}

// Status says which rules are in place, and what stands in the way of newer ones.
type Status struct {
	// Source is the name of the source.
	Source string
	// Loaded says that there are rules from the source.
	Loaded bool
	// Version, Origin and By are those of the document whose rules are in place.
	Version int64
	Origin  string
	By      string
	// Applied is when it was put in place here.
	Applied time.Time
	// Rules is how many rules it has.
	Rules int
	// Problem is why what is at the source now is not in place: [rules.Errors], or what the source failed with.
	// Nil: it is in place.
	Problem error
}

// New returns what keeps the rules of the engine as they are at the source. Until the first document the engine goes on
// with the rules that it has. A nil config is the default.
func New(engine Engine, src source.Source, cfg *Config) (*Live, error) {
	if engine == nil || src == nil {
		return nil, errors.New("live: New needs an engine, such as rules.New's, and a source, such as NewFile's")
	}
	l := &Live{engine: engine, source: src, looked: make(chan struct{}), status: Status{Source: src.Name()}}
	if cfg != nil {
		l.cfg = *cfg
	}
	if l.cfg.Logger == nil {
		l.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if l.cfg.Audit == nil {
		l.cfg.Audit = NewAudit(0)
	}
	if l.cfg.Now == nil {
		l.cfg.Now = time.Now
	}
	return l, nil
}

// Run watches the source until ctx ends, and then returns the context's error; any other only if the source says that it
// can never deliver. It runs once at a time.
func (l *Live) Run(ctx context.Context) error {
	for {
		watching, stop := context.WithCancel(ctx)
		l.mu.Lock()
		l.again = stop
		l.mu.Unlock()
		err := l.source.Watch(watching, l.deliver)
		reread := watching.Err() != nil
		stop()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !reread:
			err = fmt.Errorf("live: the source %s has ended: %w", l.source.Name(), err)
			l.deliver(source.Document{}, err)
			return err
		}
	}
}

// Reread makes Run ask the source anew, as if it had just begun.
func (l *Live) Reread() {
	l.change.Lock()
	l.refused = nil // so that who asks is told again
	l.change.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again != nil {
		l.again()
	}
}

// First waits for rules of the source: it returns nil once there are, at once if there were before. What becomes of a
// document, or of an attempt to get one, before that is its error; called again, it waits for the next. One may wait.
func (l *Live) First(ctx context.Context) error {
	for {
		l.mu.Lock()
		status, looked, news := l.status, l.looked, l.looks > l.told
		l.told = l.looks
		l.mu.Unlock()
		switch {
		case status.Loaded:
			return nil
		case news && status.Problem != nil:
			return status.Problem
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status says which rules are in place.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Changes returns what changed, rule by rule, the latest first: see [Audit].
func (l *Live) Changes() []Change { return l.cfg.Audit.Changes() }

// Document returns the document whose rules are in place, false if there is none from the source yet.
func (l *Live) Document() (source.Document, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied, l.status.Loaded
}

// Replace changes the rules at their source, where programs may, and here at once. Expect and by are as in
// [source.Editor.Push]; durations after "until" begin now. The error is [rules.Errors] of a text that is bad, a
// [*source.ReadOnlyError], a [*source.ConflictError], or what the source failed with. It returns the version that the
// rules have now.
func (l *Live) Replace(ctx context.Context, text []byte, by string, expect int64) (int64, error) {
	editor, ok := l.source.(source.Editor)
	if !ok {
		return 0, &source.ReadOnlyError{Origin: l.origin()}
	}
	text, err := rules.Absolute("rules", text, l.cfg.Now(), l.engine.Set())
	if err != nil {
		return 0, err
	}
	version, err := editor.Push(ctx, text, by, expect)
	if err != nil {
		return 0, err
	}
	l.change.Lock()
	defer l.change.Unlock()
	if version > l.applied.Version { // else a later change was faster
		l.apply(source.Document{Text: text, Version: version, Origin: l.origin(), By: by})
	}
	return version, nil
}

// origin says where the rules come from as far as is known.
func (l *Live) origin() string {
	if o, ok := l.source.(interface{ Origin() string }); ok {
		return o.Origin()
	}
	return l.source.Name()
}

// deliver takes what the source has.
func (l *Live) deliver(doc source.Document, err error) {
	l.change.Lock()
	defer l.change.Unlock()
	switch {
	case errors.Is(err, source.ErrUnchanged):
		if l.refused == nil { // else the document is still the bad one
			l.well("the source of the rules works again")
		}
	case err != nil:
		l.failed(err)
	default:
		l.apply(doc)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	close(l.looked)
	l.looked = make(chan struct{})
}

// apply puts the rules of a document in place, if they are good and others than before. Its callers hold l.change.
func (l *Live) apply(doc source.Document) {
	switch {
	case l.status.Loaded && bytes.Equal(doc.Text, l.applied.Text):
		l.refused = nil
		l.mu.Lock()
		l.applied.Version = max(l.applied.Version, doc.Version) // a file that was touched
		l.status.Version = l.applied.Version
		l.mu.Unlock()
		l.count(Unchanged)
		l.well("the rules at the source are again those that are in place")
		return
	case l.refused != nil && bytes.Equal(doc.Text, l.refused):
		return // which was told of already
	}
	set, err := rules.Parse(doc.Origin, doc.Text)
	if err != nil {
		l.invalid(doc, err)
		return
	}
	l.refused = nil
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
	l.refused = bytes.Clone(doc.Text)
	l.setProblem(err)
	l.count(Invalid)
	l.cfg.Logger.Error("the change of the rules is bad, and is not made", slog.String("source", l.source.Name()), slog.String("origin", doc.Origin),
		slog.Int64("version", doc.Version), slog.String("by", doc.By), slog.Int("mistakes", mistakes(err)), slog.String("error", firstLines(err)))
}

// failed takes note of a source that fails.
func (l *Live) failed(err error) {
	l.count(Failed)
	first := l.status.Problem == nil || l.status.Problem.Error() != err.Error()
	l.setProblem(err)
	if first {
		l.cfg.Logger.Warn("the rules cannot be had from their source, and stay as they are", slog.String("source", l.source.Name()), slog.Any("error", err))
	}
}

// well takes note that nothing stands in the way any more.
func (l *Live) well(how string) {
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
