package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
	"github.com/rs/cors"
	"github.com/tidegate-go/tidegate/httplimit"
)

// browser returns the context of a tab of a headless Chromium, which ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("TIDEGATE_REQUIRE_SERVERS") != "" {
			t.Fatal("there is no Chromium on the PATH: run make deps")
		}
		t.Skip("there is no Chromium on the PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's ends before its clean-up
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(50*time.Second))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser to end
		cancel()
	})
	return ctx
}

// eval opens a page and returns what the script, an async function's body, returns there.
func eval[T any](ctx context.Context, t *testing.T, url, script string) T {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T]("(async () => {"+script+"})()", chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// seen is what a script can see of an answer.
type seen struct {
	Status     int
	RetryAfter string
	RateLimit  string
	Policy     string
	Violated   []string
	Error      string
}

const fetchTwice = `
	const answers = [];
	for (let i = 0; i < 2; i++) {
		try {
			const r = await fetch(%q, {method: "PUT", headers: {"X-Api-Key": "k"}, body: "{}"});
			const body = r.status == 429 ? await r.json() : {};
			answers.push({Status: r.status, RetryAfter: r.headers.get("Retry-After") ?? "", RateLimit: r.headers.get("RateLimit") ?? "",
				Policy: r.headers.get("RateLimit-Policy") ?? "", Violated: body["violated-policies"]});
		} catch (e) {
			answers.push({Error: String(e)});
		}
	}
	return answers;`

// A page of another origin sees that it was refused, and when to come back; the preflight that its browser sends before is
// not charged.
func TestBrowserSeesTheRefusal(t *testing.T) {
	ctx := browser(t)
	site := httptest.NewServer(http.HandlerFunc(page))
	defer site.Close()
	allow := cors.New(cors.Options{
		AllowedOrigins: []string{site.URL}, AllowedMethods: []string{http.MethodPut}, AllowedHeaders: []string{"X-Api-Key"},
		ExposedHeaders: []string{"Retry-After", "RateLimit", "RateLimit-Policy"},
	})
	served := 0
	limited := middleware(t, limiter(t, "1/h"), nil).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	api := httptest.NewServer(allow.Handler(limited))
	defer api.Close()

	got := eval[[]seen](ctx, t, site.URL, fmt.Sprintf(fetchTwice, api.URL))
	want := []seen{
		{Status: 200, RateLimit: `"api";r=0;t=3600`, Policy: `"api";q=1;w=3600`},
		{Status: 429, RateLimit: `"api";r=0;t=3600`, Policy: `"api";q=1;w=3600`, RetryAfter: "3600", Violated: []string{"api"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page sees\n%+v\nwant\n%+v", got, want)
	}
	if served != 1 {
		t.Errorf("%d were served", served)
	}
}

// With the limits around CORS instead, the browser hides the refusal: the doc comment of httplimit warns of it.
func TestBrowserDoesNotSeeARefusalAroundCORS(t *testing.T) {
	ctx := browser(t)
	site := httptest.NewServer(http.HandlerFunc(page))
	defer site.Close()
	allow := cors.New(cors.Options{AllowedOrigins: []string{site.URL}, AllowedMethods: []string{http.MethodPut}, AllowedHeaders: []string{"X-Api-Key"}})
	api := httptest.NewServer(middleware(t, limiter(t, "1/h"), nil).Wrap(allow.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	defer api.Close()
	got := eval[[]seen](ctx, t, site.URL, fmt.Sprintf(fetchTwice, api.URL))
	if len(got) != 2 || got[0].Status != 200 || got[1].Error == "" {
		t.Errorf("%+v", got)
	}
}

// A browser's EventSource and WebSocket work through each kind of middleware.
func TestBrowserStreams(t *testing.T) {
	ctx := browser(t)
	for name, m := range middlewares(t) {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/", page)
			mux.Handle("/events", m.Wrap(events(t)))
			mux.Handle("/socket", m.Wrap(echo(t)))
			s := httptest.NewServer(mux)
			defer s.Close()

			got := eval[struct {
				Events  []string
				Between []bool
				Echo    string
			}](ctx, t, s.URL, `
				const events = [], between = [];
				await new Promise((resolve, reject) => {
					const source = new EventSource("/events");
					let last = 0;
					source.onmessage = e => {
						between.push(performance.now() - last > 20);
						last = performance.now();
						events.push(e.data);
						if (events.length == 3) { source.close(); resolve(); }
					};
					source.onerror = e => { source.close(); reject("EventSource failed after " + events.length); };
				});
				const echo = await new Promise((resolve, reject) => {
					const socket = new WebSocket(location.origin.replace("http", "ws") + "/socket");
					socket.onopen = () => socket.send("hello");
					socket.onmessage = e => { socket.close(1000); resolve(e.data); };
					socket.onerror = () => reject("WebSocket failed");
				});
				return {Events: events, Between: between, Echo: echo};`)
			if !reflect.DeepEqual(got.Events, []string{"0", "1", "2"}) || got.Echo != "hello" {
				t.Errorf("the page got %+v", got)
			}
			for i, ok := range got.Between {
				if !ok {
					t.Errorf("event %d came together with the one before", i)
				}
			}
		})
	}
}

// events sends three events, each flushed, some time apart.
func events(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := httplimit.FromContext(r.Context()); !ok {
			t.Error("the handler does not have the decision")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// echo sends every message back until the client closes.
func echo(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(1 << 20)
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, message); err != nil {
				return
			}
		}
	})
}
