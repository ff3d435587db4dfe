package fiberlimit_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// gated is a body of two bytes, of which the second comes when it is let through.
type gated struct {
	sent         int
	begun, leave chan struct{}
}

func newGate() (begun, leave chan struct{}) { return make(chan struct{}, 1), make(chan struct{}, 1) }

// Read returns one byte.
func (g *gated) Read(b []byte) (int, error) {
	switch g.sent++; g.sent {
	case 1:
	case 2:
		g.begun <- struct{}{} // the handler has returned: it is sent
		<-g.leave
	default:
		return 0, io.EOF
	}
	b[0] = 'x'
	return 1, nil
}

// ask returns the status and the body; 0 where there is no answer.
func ask(ctx context.Context, url string) (int, string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// eventually polls until ok does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// A permit was given back when the handler had returned, while the body was still being sent. It is held until that is over, however
// it is streamed and whether it ends well or the client leaves.
func TestPermitIsHeldUntilTheStreamEnds(t *testing.T) {
	for name, stream := range map[string]func(c fiber.Ctx, body *gated) error{
		"SendStream":           func(c fiber.Ctx, body *gated) error { return c.SendStream(body) },
		"SendStream of a size": func(c fiber.Ctx, body *gated) error { return c.SendStream(body, 2) },
		"SendStreamWriter": func(c fiber.Ctx, body *gated) error {
			return c.SendStreamWriter(func(w *bufio.Writer) { _, _ = io.Copy(w, body) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun, leave := newGate()
			var told atomic.Int64
			limits := &httplimit.Config{Outcome: func(_ *http.Request, status int, _ time.Duration) { told.Add(int64(status)) }}
			app := newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "method"), limits)
			app.Get("/stream", func(c fiber.Ctx) error { return stream(c, &gated{begun: begun, leave: leave}) })
			app.Get("/", nothing)
			url := serve(t, app)
			free := func() bool { status, _ := ask(t.Context(), url); return status == http.StatusOK }

			type answer struct {
				status int
				body   string
			}
			answers := make(chan answer, 1)
			send := func(ctx context.Context) {
				go func() {
					status, body := ask(ctx, url+"/stream")
					answers <- answer{status, body}
				}()
				<-begun
				for range 3 {
					if status, _ := ask(t.Context(), url); status != http.StatusTooManyRequests {
						t.Errorf("while the body is sent: %d", status)
					}
				}
			}
			send(t.Context())
			leave <- struct{}{}
			if a := <-answers; a.status != http.StatusOK || a.body != "xx" {
				t.Errorf("%d %q", a.status, a.body)
			}
			eventually(t, "the permit is back", free)

			ctx, cancel := context.WithCancel(t.Context())
			send(ctx)
			cancel()
			<-answers
			leave <- struct{}{}
			eventually(t, "the permit is back after its client has gone", free)
			if got := told.Load(); got != 4*http.StatusOK {
				t.Errorf("the outcomes add up to %d, want four of 200", got)
			}
		})
	}
}

// Where nobody tells of the end of a stream, the permit is given back when the handler has returned, rather than never.
func TestPermitUnderTheAdaptor(t *testing.T) {
	app := newApp(t, newLimiter(t, tidegate.Limit{Rate: 1, Algorithm: tidegate.Concurrency}, "method"), nil)
	begun, leave := newGate()
	app.Get("/", func(c fiber.Ctx) error { return c.SendStream(&gated{begun: begun, leave: leave}) })
	h := adaptor.FiberApp(app)
	for range 3 {
		leave <- struct{}{}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		<-begun
		if w.Code != http.StatusOK || w.Body.String() != "xx" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
}

// The routes of each app were kept for ever, and the app with them.
func TestAppsAreForgotten(t *testing.T) {
	limiter := newLimiter(t, tidegate.Limit{Rate: 100, Per: time.Hour}, "pattern")
	kept := make([]weak.Pointer[fiber.App], 0, 10)
	for range cap(kept) {
		app := newApp(t, limiter, nil)
		app.Get("/items/:id", nothing)
		wantStatus(t, app, get("/items/1"), http.StatusOK)
		if err := app.Shutdown(); err != nil {
			t.Log(err)
		}
		kept = append(kept, weak.Make(app))
	}
	eventually(t, "nearly all apps are forgotten", func() bool {
		runtime.GC()
		n := 0
		for _, app := range kept {
			if app.Value() != nil {
				n++
			}
		}
		return n <= 1 // the last one may still be on the stack
	})
}
