package etcdrules

import (
	"context"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tidegate-go/tidegate/rules/source"
)

const (
	// lookEvery is how often a watch looks whether or not it was told of a change: so that an outage is noticed, and that
	// nothing is missed for long, whatever happens to the stream.
	lookEvery = 5 * time.Second
	// retryEvery is how often it looks while etcd does not answer.
	retryEvery = 400 * time.Millisecond
)

// Watch implements [source.Source]: it follows the key by a watch of etcd, which begins anew where the revision that it
// needs is compacted, or the connection is lost.
func (r *Rules) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	l := &looker{rules: r, deliver: deliver, revision: -1}
	for {
		if store, ok := l.look(ctx); ok {
			l.follow(ctx, store+1)
		}
		if err := source.Sleep(ctx, spread(retryEvery)); err != nil {
			return err
		}
	}
}

// looker delivers what has changed since it last looked.
type looker struct {
	rules    *Rules
	deliver  func(source.Document, error)
	revision int64 // of the key, as delivered last; 0: there was none; -1: nothing was delivered yet
	failed   bool  // an error was delivered since
}

// look delivers the rules if they are new, and returns the revision of etcd.
func (l *looker) look(ctx context.Context) (store int64, ok bool) {
	now, err := l.rules.get(ctx)
	switch {
	case ctx.Err() != nil:
		return 0, false
	case err != nil:
		l.failed = true
		l.deliver(source.Document{}, err)
		return 0, false
	case now.revision != l.revision && now.revision != 0:
		l.deliver(now.doc, nil)
	case now.revision != l.revision, l.failed && now.revision == 0:
		l.deliver(source.Document{}, source.ErrNone)
	case l.failed:
		l.deliver(source.Document{}, source.ErrUnchanged)
	}
	l.revision, l.failed = now.revision, false
	return now.store, true
}

// follow looks whenever the key changes from the revision on, until something is wrong.
func (l *looker) follow(ctx context.Context, from int64) {
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	events := l.rules.client.Watch(watching, l.rules.key, clientv3.WithRev(from))
	timer := time.NewTimer(spread(lookEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case resp, ok := <-events:
			if !ok || resp.Err() != nil { // among others ErrCompacted
				return
			}
			if len(resp.Events) == 0 {
				continue
			}
		case <-timer.C:
			timer.Reset(spread(lookEvery))
		}
		if _, ok := l.look(ctx); !ok {
			return
		}
	}
}

// spread returns a time within a fifth of d, so that replicas do not act all at once.
func spread(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5) }
