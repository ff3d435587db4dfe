package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// newTraced returns a server that keeps its spans, and what keeps them.
func newTraced(t *testing.T) (*Server, *faultyStore, *tracetest.SpanRecorder) {
	t.Helper()
	store := newFaultyStore(t)
	spans := tracetest.NewSpanRecorder()
	return newServerOn(t, store, &Config{
		Rules: testRules(), Token: testToken,
		Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	}), store, spans
}

func TestTracedCalls(t *testing.T) {
	s, store, spans := newTraced(t)
	const secret = "user:secret"
	post(s, "/v1/take", `{"rule":"example","key":"`+secret+`"}`)
	id := idOf(t, post(s, "/v1/take", `{"rule":"example","key":"`+secret+`","reserve":true}`))
	post(s, "/v1/settle", `{"id":"`+id+`","cost":0}`)
	id = idOf(t, post(s, "/v1/acquire", `{"rule":"permits","key":"`+secret+`"}`))
	post(s, "/v1/renew", `{"id":"`+id+`"}`)
	post(s, "/v1/release", `{"id":"`+id+`"}`)
	post(s, "/v1/release", `{"id":"`+id+`"}`) // again: it is gone
	withToken(s, "/v1/reset", `{"rule":"example","key":"`+secret+`"}`)
	call(s, "BREW", "/v1/take", "")
	store.down.Store(true)
	post(s, "/v1/take", `{"rule":"example","key":"`+secret+`"}`)

	seen := map[string]int{}
	failed := map[string]int{}
	for _, sp := range spans.Ended() {
		seen[sp.Name()]++
		if sp.Status().Code == codes.Error {
			failed[sp.Name()]++
		}
		for _, a := range sp.Attributes() {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s tells a key: %v", sp.Name(), a)
			}
		}
		if strings.Contains(sp.Status().Description, "secret") || len(sp.Events()) > 0 {
			t.Errorf("%s tells more than it may: %v %v", sp.Name(), sp.Status(), sp.Events())
		}
	}
	for name, want := range map[string]int{
		"store take": 4, "store settle": 1, "store renew": 1, "store release": 2, "store reset": 1,
		"POST /v1/take": 3, "POST /v1/settle": 1, "POST /v1/acquire": 1, "POST /v1/release": 2, "_OTHER /v1/take": 1,
	} {
		if seen[name] != want {
			t.Errorf("there are %d spans %s, want %d", seen[name], name, want)
		}
	}
	if failed["store take"] != 1 || failed["store release"] != 1 || failed["POST /v1/take"] != 1 || failed["POST /v1/release"] != 0 {
		t.Errorf("these spans say that they failed: %v", failed)
	}
}

func TestTracesLeaveOutProbes(t *testing.T) {
	s, _, spans := newTraced(t)
	for _, path := range []string{"/healthz", "/metrics"} {
		call(s, http.MethodGet, path, "")
	}
	if got := spans.Ended(); len(got) != 0 {
		t.Errorf("%d spans were made", len(got))
	}
}

// TestNoTracesNoWrapping holds a server without traces to being the same as if there were none.
func TestNoTracesNoWrapping(t *testing.T) {
	s := newTestServer(t, nil)
	if _, ok := s.Store().(*watchedStore); !ok {
		t.Errorf("the store is wrapped in a %T", s.Store())
	}
	called := false
	s.traced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, wrapped := w.(*statusWriter)
		called = !wrapped
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/take", http.NoBody))
	if !called {
		t.Error("the handler was not called, or its answer is wrapped")
	}
}

// TestTracesOfManyAtOnce is for the race detector.
func TestTracesOfManyAtOnce(t *testing.T) {
	s, _, spans := newTraced(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				post(s, "/v1/take", `{"rule":"open","key":"k"}`)
			}
		})
	}
	wg.Wait()
	if got := len(spans.Ended()); got < 160 {
		t.Errorf("there are %d spans, want at least one for each of 160 requests", got)
	}
}
