package ginlimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/ginlimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := ginlimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		engine := gin.New()
		engine.Use(limits)
		for _, route := range s.Routes {
			engine.Any(route, func(c *gin.Context) {
				status, body := s.Serve(c.Request.Context(), c.Request.URL.Path)
				c.Data(status, "text/plain", []byte(body))
			})
		}
		server := httptest.NewServer(engine)
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

// newEngine returns one with the limits, which recovers from panics.
func newEngine(t *testing.T, d tidegate.Decider, cfg *httplimit.Config) *gin.Engine {
	t.Helper()
	limits, err := ginlimit.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.Status(http.StatusInternalServerError) }), limits)
	return engine
}

// get asks the engine without a socket.
func get(engine *gin.Engine, path string) int {
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

func wantStatus(t *testing.T, engine *gin.Engine, path string, want int) {
	t.Helper()
	if got := get(engine, path); got != want {
		t.Errorf("%s: %d, want %d", path, got, want)
	}
}

// The pattern is the route, so that all items are one key; what is no route has none, and is not limited by it.
func TestPattern(t *testing.T) {
	engine := newEngine(t, newLimiter(t, tidegate.Limit{Rate: 2, Per: time.Hour}, "pattern"), nil)
	engine.GET("/items/:id", func(*gin.Context) {})
	engine.GET("/other", func(*gin.Context) {})
	wantStatus(t, engine, "/items/1", http.StatusOK)
	wantStatus(t, engine, "/items/2", http.StatusOK)
	wantStatus(t, engine, "/items/3", http.StatusTooManyRequests)
	wantStatus(t, engine, "/other", http.StatusOK)
	for range 3 {
		wantStatus(t, engine, "/nowhere", http.StatusNotFound)
	}
	// One's own goes first.
	engine = newEngine(t, newLimiter(t, tidegate.Limit{Rate: 1, Per: time.Hour}, "pattern"), &httplimit.Config{
		Pattern: func(r *http.Request) string { return r.URL.Path },
	})
	engine.GET("/items/:id", func(*gin.Context) {})
	wantStatus(t, engine, "/items/1", http.StatusOK)
	wantStatus(t, engine, "/items/2", http.StatusOK)
	wantStatus(t, engine, "/items/1", http.StatusTooManyRequests)
}

// A handler that panics has failed, and gives its permit back.
func TestPanic(t *testing.T) {
	engine := newEngine(t, newLimiter(t, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "method"), nil)
	engine.GET("/panic", func(*gin.Context) { panic("failed") })
	for range 3 {
		wantStatus(t, engine, "/panic", http.StatusInternalServerError)
	}
	engine = newEngine(t, newLimiter(t, tidegate.Limit{Rate: 2, Per: time.Hour}, "method"), &httplimit.Config{Count: httplimit.CountFailures})
	engine.GET("/panic", func(*gin.Context) { panic("failed") })
	engine.GET("/ok", func(*gin.Context) {})
	for _, want := range []int{http.StatusInternalServerError, http.StatusInternalServerError, http.StatusTooManyRequests} {
		wantStatus(t, engine, "/panic", want)
	}
	wantStatus(t, engine, "/ok", http.StatusTooManyRequests)
}

// A refusal ends the chain, and may be answered by a responder of one's own.
func TestRefusal(t *testing.T) {
	served := 0
	engine := newEngine(t, newLimiter(t, tidegate.Limit{Algorithm: tidegate.None}, "method"), &httplimit.Config{
		Respond: func(w http.ResponseWriter, r *http.Request, a *httplimit.Answer) {
			w.WriteHeader(a.Status)
			_, _ = io.WriteString(w, "no more "+r.URL.Path)
		},
	})
	engine.Use(func(*gin.Context) { served++ })
	engine.GET("/ok", func(*gin.Context) { served++ })
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ok", nil))
	if w.Code != http.StatusTooManyRequests || w.Body.String() != "no more /ok" || served != 0 {
		t.Errorf("got %d %q, and %d handlers ran", w.Code, w.Body, served)
	}
}

func TestConfigErrors(t *testing.T) {
	if _, err := ginlimit.New(nil, nil); err == nil || !strings.Contains(err.Error(), "decider is nil") {
		t.Errorf("error %v", err)
	}
}

// Events are on their way while the handler still runs.
func TestStream(t *testing.T) {
	engine := newEngine(t, newLimiter(t, tidegate.Limit{Rate: 10, Per: time.Hour}, "method"), nil)
	leave := make(chan struct{})
	engine.GET("/events", func(c *gin.Context) {
		c.SSEvent("message", "first")
		c.Writer.Flush()
		<-leave
	})
	server := httptest.NewServer(engine)
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
