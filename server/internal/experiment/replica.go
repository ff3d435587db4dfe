package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/resilience"
)

const (
	// rule and key name the one bucket of a run.
	rule, key = "replicas", "all"
	// deadline bounds what a replica waits for its store.
	deadline = 50 * time.Millisecond
	// storeConnections is how many takes of a replica make its store connect before the run.
	storeConnections = 16
)

// replica is a service that keeps a limit in front of the downstream: with a name, a store, connections and a wrapper of
// its own, as if it were a process of its own.
type replica struct {
	*listening
	store      tidegate.Store
	limiter    *tidegate.Limiter
	downstream string
	transport  *http.Transport // to the downstream
}

// newReplica starts a replica that so many connections will be opened to.
func newReplica(ctx context.Context, store tidegate.Store, limit tidegate.Limit, downstream string, connections int) (*replica, error) {
	limiter, err := tidegate.New(store, limit, &tidegate.Config{Rule: rule})
	if err != nil {
		return nil, err
	}
	r := &replica{store: store, limiter: limiter, downstream: downstream, transport: newTransport()}
	mux := http.NewServeMux()
	mux.Handle(warmPath, newMeeting(connections))
	mux.Handle("/", http.HandlerFunc(r.pass))
	r.listening, err = listen(ctx, mux)
	return r, err
}

// pass lets the request through to the downstream, or answers 429. Anything else is a fault.
func (r *replica) pass(w http.ResponseWriter, req *http.Request) {
	d, err := r.limiter.Allow(req.Context(), key)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !d.Allowed:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	status, err := get(req.Context(), r.transport, r.downstream)
	if err != nil {
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
}

// warm opens connections to the store. A peek charges nothing.
func (r *replica) warm(ctx context.Context) error {
	errs := make([]error, storeConnections)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = r.limiter.Peek(ctx, key) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *replica) close() error {
	if r.listening != nil {
		r.listening.close()
	}
	r.transport.CloseIdleConnections()
	return r.store.Close()
}

// openStore opens the store of one replica in a scenario.
func (p *Plan) openStore(url, prefix string) (tidegate.Store, error) {
	if p.Scenario == Local {
		return memstore.New(nil), nil
	}
	shared, err := redisstore.Open(url, &redisstore.Config{Prefix: prefix, Timeout: deadline})
	if err != nil {
		return nil, err
	}
	store, err := resilience.New(shared, &resilience.Config{Timeout: deadline, Replicas: p.Replicas})
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	return store, nil
}

// probe returns an error unless a store in Redis does.
func probe(ctx context.Context, url string) error {
	store, err := redisstore.Open(url, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err = store.Now(ctx); err != nil {
		if e, ok := errors.AsType[*tidegate.StoreError](err); ok {
			err = e.Err
		}
		return fmt.Errorf("no answer from the store: %w", err)
	}
	return nil
}
