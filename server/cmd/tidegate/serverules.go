package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/etcdrules"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/live"
	"github.com/tidegate-go/tidegate/rules/source"
	"github.com/tidegate-go/tidegate/server"
)

const (
	rulesUsage = "rules: a file, store for those that are shared through the store, or etcd://HOST:PORT/KEY (default: the built-in example)"
	// rulesInStore is the name of the rules that are shared through the store.
	rulesInStore = "store"
)

// firstPatience is how long the service waits for shared rules before it listens: so that one which is started while there are rules
// has them with the first take.
const firstPatience = 2 * time.Second

// followRules keeps the server's rules as they are at their source, until it is stopped. A file must be good at the start. Rules that
// others push may come later: the server says until then that it is not ready.
func followRules(ctx context.Context, cmd *cobra.Command, s *server.Server, name, store string) (stop func(), err error) {
	src, closeSource, err := openRulesSource(s, name, store)
	if err != nil {
		return nil, err
	}
	l, err := s.LiveRules(src)
	if err != nil {
		return nil, errors.Join(err, closeSource())
	}
	_, shared := src.(source.Editor)
	shared = shared && name != "" // the built-in example is there at once
	if shared {
		s.AwaitRules()
	}
	running, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	stop = func() {
		end()
		wg.Wait()
		_ = closeSource() // nothing is lost with it
	}
	wg.Go(func() { _ = l.Run(running) }) // its error is in the log, and the rules stay
	if name != "" {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		wg.Go(func() {
			defer signal.Stop(hangup)
			for {
				select {
				case <-hangup:
					l.Reread()
				case <-running.Done():
					return
				}
			}
		})
	}
	if !shared {
		if err := l.First(ctx); err != nil {
			stop()
			return nil, firstFailed(ctx, cmd, err)
		}
		return stop, nil
	}
	patience, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if err := l.First(patience); err != nil {
		wg.Go(func() { tellWhenNone(running, cmd, l, name, err) })
	}
	return stop, nil
}

// firstFailed says why rules that must be good at the start are not.
func firstFailed(ctx context.Context, cmd *cobra.Command, err error) error {
	switch {
	case ctx.Err() != nil:
		return &exitError{code: exitAllowed} // told to end before it began
	case isBad(err):
		return badRules(cmd, err)
	}
	return fmt.Errorf("--rules: %w", withoutPath(err))
}

// tellWhenNone waits for shared rules, after a first attempt that ended so, and tells once how they come about if there are none. All
// else is in the log.
func tellWhenNone(ctx context.Context, cmd *cobra.Command, l *live.Live, name string, err error) {
	for ; err != nil && ctx.Err() == nil; err = l.First(ctx) {
		if !errors.Is(err, source.ErrNone) {
			continue
		}
		place := ""
		if name != rulesInStore {
			place = " --store " + shownStore(name)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: there are no rules yet; takes are answered 503 until some are there: tidegate rules push FILE%s\n", cmd.CommandPath(), place)
		return
	}
}

func isBad(err error) bool {
	_, ok := errors.AsType[rules.Errors](err)
	return ok
}

// withoutPath keeps an error of a file to what a person wants to know.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

// openRulesSource opens the source of the name.
func openRulesSource(s *server.Server, name, store string) (source.Source, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case name == "":
		return live.NewMemory(s.Engine().Set().Marshal(), "the built-in example"), nothing, nil
	case isEtcd(name):
		r, err := etcdrules.Open(name, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("--rules: %w", err)
		}
		return r, r.Close, nil
	case name == rulesInStore:
		if at := storeName(store); !strings.Contains(at, "://") {
			return nil, nil, errors.New("--rules store needs a store that is shared: name it, as in --store redis://localhost:6379; " +
				"a file of that name is ./store")
		}
		// Connections of its own, few: what takes wait for is none of its business.
		opened, err := openStoreWith(store, &redisstore.Config{PoolSize: 2})
		if err != nil {
			return nil, nil, err
		}
		shared, ok := opened.(*redisstore.Store)
		if !ok {
			return nil, nil, errors.Join(errors.New("--rules store: rules are not shared through this store"), opened.Close())
		}
		return shared.Rules(), shared.Close, nil
	case strings.Contains(name, "://"):
		return nil, nil, errors.New("--rules: there is no such source of rules: write a file, store, or etcd://HOST:PORT/KEY")
	}
	f, err := live.NewFile(name, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("--rules: %w", err)
	}
	return f, nothing, nil
}
