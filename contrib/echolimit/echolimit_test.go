package echolimit_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/echolimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := echolimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		e := echo.New()
		e.Logger = slog.New(slog.DiscardHandler)
		e.Use(limits)
		for _, route := range s.Routes {
			e.Any(route, func(c *echo.Context) error {
				status, body := s.Serve(c.Request().Context(), c.Request().URL.Path)
				return c.Blob(status, "text/plain", []byte(body))
			})
		}
		server := httptest.NewServer(e)
		t.Cleanup(server.Close)
		return server.URL
	})
}

// newLimiter returns a limiter by the attribute.
func newLimiter(t *testing.T, limit tidegate.Limit, keyBy string) *tidegate.Limiter {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	l, err := tidegate.New(store, limit, &tidegate.Config{KeyBy: keyBy})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newEcho returns one with the limits, which recovers from panics.
func newEcho(t *testing.T, d tidegate.Decider, cfg *httplimit.Config) *echo.Echo {
	t.Helper()
	limits, err := echolimit.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.Use(middleware.Recover(), limits)
	return e
}

// get asks the engine without a socket.
func get(e *echo.Echo, path string) int {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

func wantStatus(t *testing.T, e *echo.Echo, path string, want int) {
	t.Helper()
	if got := get(e, path); got != want {
		t.Errorf("%s: %d, want %d", path, got, want)
	}
}

// Handlers.
func nothing(*echo.Context) error { return nil }
func fails(*echo.Context) error   { panic("failed") }

// The pattern is the route, so that all items are one key; what is no route has none, and is not limited by it.
func TestPattern(t *testing.T) {
	e := newEcho(t, newLimiter(t, tidegate.Limit{Rate: 2, Per: time.Hour}, "pattern"), nil)
	e.GET("/items/:id", nothing)
	e.GET("/other", nothing)
	wantStatus(t, e, "/items/1", http.StatusOK)
	wantStatus(t, e, "/items/2", http.StatusOK)
	wantStatus(t, e, "/items/3", http.StatusTooManyRequests)
	wantStatus(t, e, "/other", http.StatusOK)
	for range 3 {
		wantStatus(t, e, "/nowhere", http.StatusNotFound)
	}
	// One's own goes first.
	e = newEcho(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "pattern"), &httplimit.Config{
		Pattern: func(r *http.Request) string { return r.URL.Path },
	})
	e.GET("/items/:id", nothing)
	wantStatus(t, e, "/items/1", http.StatusOK)
	wantStatus(t, e, "/items/2", http.StatusOK)
	wantStatus(t, e, "/items/1", http.StatusTooManyRequests)
}

// A handler that panics has failed, and gives its permit back.
func TestPanic(t *testing.T) {
	e := newEcho(t, newLimiter(t, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "method"), nil)
	e.GET("/panic", fails)
	for range 3 {
		wantStatus(t, e, "/panic", http.StatusInternalServerError)
	}
	e = newEcho(t, newLimiter(t, tidegate.Limit{Rate: 2, Per: time.Hour}, "method"), &httplimit.Config{Count: httplimit.CountFailures})
	e.GET("/panic", fails)
	e.GET("/ok", nothing)
	for _, want := range []int{http.StatusInternalServerError, http.StatusInternalServerError, http.StatusTooManyRequests} {
		wantStatus(t, e, "/panic", want)
	}
	wantStatus(t, e, "/ok", http.StatusTooManyRequests)
}

// An error that a handler returns is answered after the middleware: it counts as what it will be.
func TestError(t *testing.T) {
	for err, want := range map[error][]int{
		echo.NewHTTPError(http.StatusUnauthorized, "who?"): {http.StatusUnauthorized, http.StatusTooManyRequests},
		io.ErrUnexpectedEOF: {http.StatusInternalServerError, http.StatusTooManyRequests},
		echo.NewHTTPError(http.StatusNotModified, "known"): {http.StatusNotModified, http.StatusNotModified},
	} {
		e := newEcho(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "method"), &httplimit.Config{Count: httplimit.CountFailures})
		e.GET("/login", func(*echo.Context) error { return err })
		for _, status := range want {
			wantStatus(t, e, "/login", status)
		}
	}
}

// A refusal ends the chain, and may be answered by a responder of one's own.
func TestRefusal(t *testing.T) {
	served := 0
	e := newEcho(t, newLimiter(t, tidegate.Limit{Algorithm: tidegate.None}, "method"), &httplimit.Config{
		Respond: func(w http.ResponseWriter, r *http.Request, a *httplimit.Answer) {
			w.WriteHeader(a.Status)
			_, _ = io.WriteString(w, "no more "+r.URL.Path)
		},
	})
	e.GET("/ok", func(*echo.Context) error {
		served++
		return nil
	})
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ok", nil))
	if w.Code != http.StatusTooManyRequests || w.Body.String() != "no more /ok" || served != 0 {
		t.Errorf("got %d %q, and %d handlers ran", w.Code, w.Body, served)
	}
}

func TestConfigErrors(t *testing.T) {
	if _, err := echolimit.New(nil, nil); err == nil || !strings.Contains(err.Error(), "decider is nil") {
		t.Errorf("error %v", err)
	}
}

// Events are on their way while the handler still runs.
func TestStream(t *testing.T) {
	e := newEcho(t, newLimiter(t, tidegate.Limit{Rate: 10, Per: time.Hour}, "method"), nil)
	leave := make(chan struct{})
	e.GET("/events", func(c *echo.Context) error {
		if _, err := io.WriteString(c.Response(), "data: first\n\n"); err != nil {
			return err
		}
		if err := http.NewResponseController(c.Response()).Flush(); err != nil {
			return err
		}
		<-leave
		return nil
	})
	server := httptest.NewServer(e)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 64)
	n, err := resp.Body.Read(buf)
	close(leave)
	if err != nil || !strings.Contains(string(buf[:n]), "first") {
		t.Errorf("read %q %v while the handler ran", buf[:n], err)
	}
}
