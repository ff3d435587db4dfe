package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// warmPath is asked to open connections. It answers once as many have asked as there are to be connections, so that each
// needs one of its own; nothing is charged or counted for it.
const warmPath = "/warm"

// meeting is where so many wait for each other.
type meeting struct {
	missing atomic.Int64
	all     chan struct{}
}

func newMeeting(n int) *meeting {
	m := &meeting{all: make(chan struct{})}
	m.missing.Store(int64(n))
	return m
}

// ServeHTTP answers once all are there.
func (m *meeting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.missing.Add(-1) == 0 {
		close(m.all)
	}
	select {
	case <-m.all:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// openConnections opens as many connections to a server as meet there, and leaves them idle in the transport.
func openConnections(ctx context.Context, t *http.Transport, url string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			status, err := get(ctx, t, url+warmPath)
			if err == nil && status != http.StatusNoContent {
				err = fmt.Errorf("%s answered %d", url, status)
			}
			if errs[i] = err; err != nil {
				cancel() // the others would wait in vain
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// newTransport returns a transport that keeps all its connections.
func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: maxConnections, DisableCompression: true}
}

// get asks for a URL, by a connection of the transport, and returns the status.
func get(ctx context.Context, t *http.Transport, url string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
