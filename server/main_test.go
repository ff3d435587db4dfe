package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const testToken = "a long random word"

// testRules are a rule of each kind.
func testRules() []Rule {
	second := func(rate, burst int64) tidegate.Limit {
		return tidegate.Limit{Rate: rate, Per: time.Second, Burst: burst}
	}
	return []Rule{
		ExampleRule(),
		{Name: "global", Limit: second(10, 30)},
		{Name: "pair", Limit: second(10, 20), Key: []string{"tenant", "user"}},
		{Name: "log", Limit: tidegate.Limit{Rate: 3, Per: time.Minute, Algorithm: tidegate.SlidingLog}, Key: []string{"log"}},
		{Name: "day", Limit: tidegate.Limit{Rate: 1, Per: 24 * time.Hour, Algorithm: tidegate.FixedWindow}, Key: []string{"day"}},
		{Name: "permits", Limit: tidegate.Limit{Rate: 2, Algorithm: tidegate.Concurrency}, Key: []string{"job"}},
		{Name: "closed", Limit: tidegate.Limit{Algorithm: tidegate.None}, Key: []string{"closed"}},
		{Name: "open", Limit: tidegate.Limit{Algorithm: tidegate.Unlimited}, Key: []string{"open"}},
	}
}

// newTestServer returns a server with testRules and a token, on a memory store, unless cfg says otherwise.
func newTestServer(tb testing.TB, cfg *Config) *Server {
	tb.Helper()
	store := memstore.New(nil)
	tb.Cleanup(func() { store.Close() })
	return newServerOn(tb, store, cfg)
}

func newServerOn(tb testing.TB, store tidegate.Store, cfg *Config) *Server {
	tb.Helper()
	if cfg == nil {
		cfg = &Config{Rules: testRules(), Token: testToken}
	}
	s, err := New(store, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// call makes a request without a socket.
func call(s *Server, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func post(s *Server, path, body string, header ...string) *httptest.ResponseRecorder {
	return call(s, http.MethodPost, path, body, header...)
}

func withToken(s *Server, path, body string) *httptest.ResponseRecorder {
	return post(s, path, body, "Authorization", "Bearer "+testToken)
}

// wantReply fails the test unless the answer has the status and, but for the last line end, the body.
func wantReply(tb testing.TB, w *httptest.ResponseRecorder, status int, body string) {
	tb.Helper()
	got, err := io.ReadAll(w.Result().Body)
	if err != nil {
		tb.Fatal(err)
	}
	if w.Code != status || strings.TrimSuffix(string(got), "\n") != body {
		tb.Errorf("got %d %s\nwant %d %s", w.Code, got, status, body)
	}
}

// wantError fails the test unless the answer has the status and is an error that has the text.
func wantError(tb testing.TB, w *httptest.ResponseRecorder, status int, text string) {
	tb.Helper()
	if w.Code != status || !strings.HasPrefix(w.Body.String(), `{"error":"`) || !strings.Contains(w.Body.String(), text) {
		tb.Errorf("got %d %s\nwant %d {\"error\":\"… %s …\"}", w.Code, w.Body, status, text)
	}
}
