package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate/etcdrules"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/rules/source"
)

const sharedRulesUsage = "where the rules are shared: the URL of a store, such as redis://localhost:6379, or etcd://localhost:2379/KEY (default $TIDEGATE_STORE)"

// rulesPlace is where rules are shared.
type rulesPlace struct {
	flag    string
	editor  source.Editor
	history func(context.Context) ([]source.Document, error) // nil where none is kept
	now     func(context.Context) (time.Time, error)         // the clock by which durations begin
	closer  io.Closer
}

// close ends the connections; nothing is lost with them.
func (p *rulesPlace) close() { _ = p.closer.Close() }

// isEtcd reports whether a name is that of rules in etcd.
func isEtcd(name string) bool {
	return strings.HasPrefix(name, "etcd://") || strings.HasPrefix(name, "etcds://")
}

// openRulesPlace opens the place that the flag names, or the environment.
func openRulesPlace(flag string) (*rulesPlace, error) {
	name := storeName(flag)
	switch {
	case name == "" || name == memoryStore:
		return nil, errors.New("--store is missing: say where the rules are shared, as in --store redis://localhost:6379 or --store etcd://localhost:2379/tidegate/rules; " +
			"a service reads a file of its own with serve --rules FILE")
	case isEtcd(name):
		r, err := etcdrules.Open(name, &etcdrules.Config{Timeout: storePatience})
		if err != nil {
			return nil, err
		}
		now := func(context.Context) (time.Time, error) { return time.Now(), nil }
		return &rulesPlace{flag: flag, editor: r, now: now, closer: r}, nil
	}
	store, err := openStoreWith(flag, &redisstore.Config{Timeout: storePatience})
	if err != nil {
		return nil, err
	}
	s, ok := store.(*redisstore.Store)
	if !ok {
		return nil, errors.Join(fmt.Errorf("rules are not shared through %s", shownStore(name)), store.Close())
	}
	return &rulesPlace{flag: flag, editor: s.Rules(), history: s.Rules().History, now: s.Now, closer: s}, nil
}

// failed says what went wrong there, without a secret.
func (p *rulesPlace) failed(err error) error {
	if c, ok := errors.AsType[*source.ConflictError](err); ok {
		return &exitError{exitDenied, fmt.Errorf("nothing was pushed: %w", c)}
	}
	if errors.Is(err, source.ErrNone) {
		return &exitError{exitDenied, fmt.Errorf("there are no rules at %s: push some with tidegate rules push FILE", p.name())}
	}
	return noAnswer(p.flag, err)
}

// name is the place without secrets.
func (p *rulesPlace) name() string { return shownStore(storeName(p.flag)) }

// former returns the document of a version, the present one or one before.
func (p *rulesPlace) former(ctx context.Context, version int64) (source.Document, error) {
	doc, err := p.editor.Pull(ctx)
	if err != nil && !errors.Is(err, source.ErrNone) {
		return doc, p.failed(err)
	}
	if doc.Version == version {
		return doc, nil
	}
	if p.history == nil {
		return doc, &exitError{exitDenied, fmt.Errorf("version %d is not there, and %s keeps none before version %d", version, p.name(), doc.Version)}
	}
	docs, err := p.history(ctx)
	if err != nil {
		return doc, p.failed(err)
	}
	for i := range docs {
		if docs[i].Version == version {
			return docs[i], nil
		}
	}
	return doc, &exitError{exitDenied, fmt.Errorf("version %d is not there, nor among the %d before: tidegate rules history lists them", version, len(docs))}
}
