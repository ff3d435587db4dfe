package live

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// A Change is what became of one rule.
type Change struct {
	At      time.Time `json:"at"`               // when it was made here
	Version int64     `json:"version"`          // of the document, see [source.Document]
	Source  string    `json:"source"`           // the name of the source
	Origin  string    `json:"origin,omitempty"` // where the document is from
	By      string    `json:"by,omitempty"`     // who made the change, where that is known
	Rule    string    `json:"rule"`
	// Before and After are the rule as a file has it, shortened beyond 4 KiB; empty where it was added, or removed.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// defaultAudit is how many changes an audit keeps where its maker does not say.
const defaultAudit = 500

// maxChange is how much of a rule's text an audit keeps, in bytes.
const maxChange = 4 << 10

// An Audit keeps the last changes, and forgets those before. It is safe for concurrent use; create it with [NewAudit].
type Audit struct {
	mu   sync.Mutex
	keep int
	last []Change // a ring once it is full
	next int      // where the oldest is then
}

// NewAudit returns an audit of so many changes; of 500 where keep is not above 0.
func NewAudit(keep int) *Audit {
	if keep <= 0 {
		keep = defaultAudit
	}
	return &Audit{keep: keep}
}

// Record adds a change.
func (a *Audit) Record(c Change) {
	c.Before, c.After = shortened(c.Before), shortened(c.After)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.last) < a.keep {
		a.last = append(a.last, c)
		return
	}
	a.last[a.next] = c
	a.next = (a.next + 1) % a.keep
}

// Changes returns the changes that it has, the latest first.
func (a *Audit) Changes() []Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.last)
	changes := make([]Change, n)
	for i := range changes {
		changes[i] = a.last[(a.next+n-1-i)%n]
	}
	return changes
}

// maxLines is how many changes of one document get a line of the log each.
const maxLines = 50

// audit records the changes of a document, and logs them.
func (l *Live) audit(doc source.Document, changes []rules.Change, now time.Time) {
	for i, c := range changes {
		change := Change{
			At: now, Version: doc.Version, Source: l.source.Name(), Origin: doc.Origin, By: doc.By,
			Rule: c.Rule, Before: c.Before, After: c.After,
		}
		l.cfg.Audit.Record(change)
		if i < maxLines {
			l.cfg.Logger.Info("a rule has changed", slog.String("rule", c.Rule), slog.String("before", shortened(c.Before)), slog.String("after", shortened(c.After)),
				slog.String("source", change.Source), slog.String("origin", doc.Origin), slog.String("by", doc.By), slog.Int64("version", doc.Version))
		}
	}
	if more := len(changes) - maxLines; more > 0 {
		l.cfg.Logger.Info("more rules have changed", slog.Int("count", more), slog.Int64("version", doc.Version))
	}
}

func shortened(text string) string {
	if len(text) <= maxChange {
		return text
	}
	cut := maxChange
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.Clone(text[:cut]) + "…"
}

// mistakes is how many mistakes an error of a bad document tells of.
func mistakes(err error) int {
	if es, ok := errors.AsType[rules.Errors](err); ok {
		return len(es)
	}
	return 1
}

// firstLines is an error's text, without what would make a line of the log too long.
func firstLines(err error) string {
	const most = 5
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	return strings.Join(lines, "; ")
}
