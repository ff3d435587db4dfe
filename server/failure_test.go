package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// faultyStore fails on demand, or does something else instead of a take.
type faultyStore struct {
	tidegate.Store
	down   atomic.Bool
	onTake func()
}

func (f *faultyStore) err(op string) error {
	if f.down.Load() {
		return &tidegate.StoreError{Op: op, Err: errors.New("dial tcp 127.0.0.1:1: connection refused")}
	}
	return nil
}

func (f *faultyStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if f.onTake != nil {
		f.onTake()
	}
	if err := f.err("take"); err != nil {
		return nil, err
	}
	return f.Store.Take(ctx, charges, dst)
}

func (f *faultyStore) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	if err := f.err("settle"); err != nil {
		return err
	}
	return f.Store.Settle(ctx, id, charges, cost)
}

func (f *faultyStore) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	if err := f.err("renew"); err != nil {
		return err
	}
	return f.Store.Renew(ctx, id, charges)
}

func (f *faultyStore) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	if err := f.err("release"); err != nil {
		return err
	}
	return f.Store.Release(ctx, id, charges)
}

func (f *faultyStore) Reset(ctx context.Context, charges []tidegate.Charge) error {
	if err := f.err("reset"); err != nil {
		return err
	}
	return f.Store.Reset(ctx, charges)
}

func (f *faultyStore) Now(ctx context.Context) (time.Time, error) {
	if err := f.err("now"); err != nil {
		return time.Time{}, err
	}
	return f.Store.Now(ctx)
}

func newFaultyStore(tb testing.TB) *faultyStore {
	tb.Helper()
	store := memstore.New(nil)
	tb.Cleanup(func() { store.Close() })
	return &faultyStore{Store: store}
}

func TestStoreFailureIs503(t *testing.T) {
	store := newFaultyStore(t)
	s := newServerOn(t, store, nil)
	id := idOf(t, post(s, "/v1/acquire", `{"rule":"permits","key":"k"}`))
	wantStatus(t, call(s, http.MethodGet, "/readyz", ""), http.StatusOK)
	store.down.Store(true)
	for path, body := range map[string]string{
		"/v1/take":    `{"rule":"example","key":"k"}`,
		"/v1/peek":    `{"attributes":{"key":"k"}}`,
		"/v1/acquire": `{"rule":"permits","key":"k"}`,
		"/v1/settle":  `{"id":"` + id + `","cost":1}`,
		"/v1/renew":   `{"id":"` + id + `"}`,
		"/v1/release": `{"id":"` + id + `"}`,
		"/v1/reset":   `{"rule":"example","key":"k"}`,
	} {
		w := withToken(s, path, body)
		wantError(t, w, http.StatusServiceUnavailable, "no decision could be made")
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("%s: Retry-After is %q", path, got)
		}
	}
	// What no rule matches needs no store, and what is malformed stays malformed.
	wantStatus(t, post(newServerOn(t, store, &Config{}), "/v1/take", `{"attributes":{"user":"u"}}`), http.StatusOK)
	wantError(t, post(s, "/v1/take", `{"rule":"example"}`), http.StatusBadRequest, "one key part")

	wantError(t, call(s, http.MethodGet, "/readyz", ""), http.StatusServiceUnavailable, "connection refused")
	wantStatus(t, call(s, http.MethodGet, "/healthz", ""), http.StatusOK)
	store.down.Store(false)
	wantStatus(t, call(s, http.MethodGet, "/readyz", ""), http.StatusOK)
	wantStatus(t, post(s, "/v1/release", `{"id":"`+id+`"}`), http.StatusOK)
}

func TestClosedStoreIs503(t *testing.T) {
	store := memstore.New(nil)
	s := newServerOn(t, store, nil)
	store.Close()
	wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k"}`), http.StatusServiceUnavailable)
	wantStatus(t, call(s, http.MethodGet, "/readyz", ""), http.StatusServiceUnavailable)
}

// A store that fails, now and then or altogether, makes a line at the change and none for each request.
func TestOneLineForEachChangeOfState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := newFaultyStore(t)
		s := newServerOn(t, store, &Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		takes := func(n int, down func(int) bool) {
			for i := range n {
				store.down.Store(down(i))
				post(s, "/v1/take", `{"rule":"example","key":"k"}`)
				<-time.After(10 * time.Millisecond) // virtual
			}
		}
		lines := func(want ...string) {
			t.Helper()
			got := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				got = nil
			}
			ok := len(got) == len(want)
			for i := range min(len(got), len(want)) {
				ok = ok && strings.Contains(got[i], want[i])
			}
			if !ok {
				t.Errorf("logged %q, want %q", got, want)
			}
			log.Reset()
		}
		takes(10, func(int) bool { return false })
		lines()
		takes(50, func(int) bool { return true })
		lines("the store does not answer")
		takes(200, func(i int) bool { return i%2 == 0 }) // as bad as before
		lines()
		takes(200, func(int) bool { return false })
		lines("the store answers again")
		takes(1, func(int) bool { return true })
		lines("the store does not answer")
	})
}

func TestPanicIsALogged500(t *testing.T) {
	var log bytes.Buffer
	store := newFaultyStore(t)
	store.onTake = func() { panic("a slip") }
	s := newServerOn(t, store, &Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	wantError(t, post(s, "/v1/take", `{"rule":"example","key":"k"}`), http.StatusInternalServerError, "its log says how")
	if !strings.Contains(log.String(), "a slip") || !strings.Contains(log.String(), "failure_test.go") {
		t.Errorf("the log does not say what panicked: %s", log.String())
	}
	store.onTake = nil
	wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k"}`), http.StatusOK)
	if got := s.running.Load(); got != 0 {
		t.Errorf("%d requests still run", got)
	}
}

func TestOneRequestTooManyIs503(t *testing.T) {
	store := newFaultyStore(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	store.onTake = func() {
		entered <- struct{}{}
		<-leave
	}
	s := newServerOn(t, store, &Config{MaxRequests: 2})
	done := make(chan int)
	for range 2 {
		go func() { done <- post(s, "/v1/take", `{"rule":"example","key":"k"}`).Code }()
		<-entered
	}
	w := post(s, "/v1/take", `{"rule":"example","key":"k"}`)
	wantError(t, w, http.StatusServiceUnavailable, "too many requests")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		wantStatus(t, call(s, http.MethodGet, path, ""), http.StatusOK)
	}
	close(leave)
	for range 2 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a request that ran got %d", code)
		}
	}
	store.onTake = nil
	wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k"}`), http.StatusOK)
}
