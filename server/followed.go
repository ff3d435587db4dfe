package server

import (
	"sync"

	"github.com/tidegate-go/tidegate/rules/live"
	"github.com/tidegate-go/tidegate/rules/source"
)

// followed is where the server's rules come from.
type followed struct {
	mu       sync.Mutex
	live     *live.Live // nil: the rules are a part of the program
	source   string
	editable bool
	hint     string
}

// follow says that the rules are kept as they are at the source.
func (f *followed) follow(l *live.Live, src source.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, f.editable = src.(source.Editor)
	f.live, f.source, f.hint = l, sourceName(src.Name()), ""
	if !f.editable {
		origin := src.Name()
		if o, ok := src.(interface{ Origin() string }); ok {
			origin = o.Origin()
		}
		f.hint = (&source.ReadOnlyError{Origin: origin}).Error()
	}
}

// RulesElsewhere says that the limits that matter come from somewhere that the server does not edit: /v1/state and /v1/rules
// name the source, and the hint tells where to edit.
func (s *Server) RulesElsewhere(source, hint string) {
	f := &s.followed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source, f.editable, f.hint = source, false, hint
}

// told is what the API tells of the source.
func (f *followed) told() (source string, editable bool, hint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.source == "" {
		return "program", false, "the rules are a part of the program: change them there"
	}
	return f.source, f.editable, f.hint
}

// follower returns what keeps the rules; nil if nothing does.
func (f *followed) follower() *live.Live {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// sourceName is how the API calls a source. Users know the store as what it is to them, whatever it runs on.
func sourceName(name string) string {
	switch name {
	case "memory":
		return "example"
	case "redis":
		return "store"
	}
	return name
}
