package experiment

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// downstream is what the limit protects. It notes when each request comes.
type downstream struct {
	*listening
	start atomic.Pointer[time.Time] // of the run

	mu sync.Mutex
	at arrivals
}

// newDownstream starts a downstream to which each replica will open so many connections.
func newDownstream(ctx context.Context, connections int) (d *downstream, err error) {
	d = &downstream{}
	mux := http.NewServeMux()
	mux.Handle(warmPath, newMeeting(connections))
	mux.Handle("/", http.HandlerFunc(d.count))
	d.listening, err = listen(ctx, mux)
	return d, err
}

func (d *downstream) count(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	d.at = append(d.at, time.Since(*d.start.Load())) // under the lock, so that they are in order
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// seen returns when requests came so far.
func (d *downstream) seen() arrivals {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.at)
}
