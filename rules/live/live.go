package live

import (
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

	change sync.Mutex // is held while a document is read, one at a time
	bad    badDocument
	// failing says that the problem that is told of is one of the source, and not of the document.
	failing bool
	passed  int // the last watch that a change went past, from here to the source

	mu      sync.Mutex      // is held for a moment; what it guards is written under both
	applied source.Document // what takes are decided by
	status  Status
	looks   int           // how often the source has delivered something
	told    int           // how often it had when First returned
	looked  chan struct{} // closed, and another, with each
	again   context.CancelFunc
	watch   int // how many watches have begun
}

// badDocument is what the source has that was not put in place; none where the text is nil.
type badDocument struct {
	text []byte
	err  error
	told bool // and need not be told of again
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
	l := &Live{engine: engine, source: src, passed: -1, looked: make(chan struct{}), status: Status{Source: src.Name()}}
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
		l.watch++
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

// Reread makes Run ask the source anew, as if it had just begun. A file is read once it has been left alone for a moment, as it is after
// any change of it: who asks may do so while it is being written.
func (l *Live) Reread() {
	l.change.Lock()
	l.bad.told = false // so that who asks is told again
	l.change.Unlock()
	l.rewatch()
}

// rewatch ends the watch that runs, and so begins another.
func (l *Live) rewatch() {
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

// origin says where the rules come from as far as is known.
func (l *Live) origin() string {
	if o, ok := l.source.(interface{ Origin() string }); ok {
		return o.Origin()
	}
	return l.source.Name()
}
