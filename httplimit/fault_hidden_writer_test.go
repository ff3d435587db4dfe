package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// Middlewares that wrapped the writer hid what it can do: streams stalled until a buffer was full, and upgrades failed
// (RB-113). Here the handler has the server's own writer, and where the status is needed one that can do the same.

// writers are the ways in which a handler gets its writer.
func writers(t *testing.T) map[string]*httplimit.Middleware {
	t.Helper()
	return map[string]*httplimit.Middleware{
		"as it is":      middleware(t, limiter(t, "1000/s"), nil),
		"with a permit": middleware(t, limiter(t, "1000 concurrent"), nil),
		"wrapped":       middleware(t, limiter(t, "1000/s"), &httplimit.Config{Count: httplimit.CountFailures}),
	}
}

// can are the optional interfaces of a writer.
func can(w http.ResponseWriter) string {
	var s []string
	add := func(name string, ok bool) {
		if ok {
			s = append(s, name)
		}
	}
	_, ok := w.(http.Flusher)
	add("Flusher", ok)
	_, ok = w.(http.Hijacker)
	add("Hijacker", ok)
	_, ok = w.(io.ReaderFrom)
	add("ReaderFrom", ok)
	_, ok = w.(http.Pusher)
	add("Pusher", ok)
	_, ok = w.(io.StringWriter)
	add("StringWriter", ok)
	return strings.Join(s, " ")
}

func TestWriterIsTheServersOwn(t *testing.T) {
	for name, m := range writers(t) {
		for _, protocol := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", HTTP/", protocol), func(t *testing.T) {
				var outer, inner string
				limited := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner = can(w) }))
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					outer = can(w)
					limited.ServeHTTP(w, r)
				}))
				s.EnableHTTP2 = protocol == 2
				s.StartTLS()
				defer s.Close()
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.ProtoMajor != protocol {
					t.Fatal(resp.Proto)
				}
				if inner != outer || outer == "" {
					t.Errorf("the server's writer can %q, the handler's %q", outer, inner)
				}
			})
		}
	}
}

// An event arrives when it is flushed, long before the response is complete.
func TestEventsArriveAtOnce(t *testing.T) {
	for name, m := range writers(t) {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			s := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 3 {
					fmt.Fprintf(w, "data: %d\n\n", i)
					if i == 1 {
						if err := http.NewResponseController(w).Flush(); err != nil {
							t.Error(err)
						}
					} else {
						w.(http.Flusher).Flush()
					}
					select {
					case <-next:
					case <-r.Context().Done():
					}
				}
			})))
			defer s.Close()
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for i := range 3 {
				for lines.Scan() {
					if lines.Text() != "" {
						break
					}
				}
				if want := fmt.Sprintf("data: %d", i); lines.Text() != want {
					t.Fatalf("%q, want %q", lines.Text(), want)
				}
				next <- struct{}{}
			}
		})
	}
}

func TestHijackAndDeadlines(t *testing.T) {
	for name, m := range writers(t) {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c := http.NewResponseController(w)
				if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				if err := c.EnableFullDuplex(); err != nil {
					t.Error(err)
				}
				conn, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				line, _ := rw.ReadString('\n')
				fmt.Fprintf(conn, "echo %s", line)
			})))
			defer s.Close()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\nhello\n")
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "echo hello\n" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A copy goes the server's own way, and its status is seen.
func TestReadFrom(t *testing.T) {
	for name, m := range writers(t) {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n, err := io.Copy(w, strings.NewReader("copied")); n != 6 || err != nil {
					t.Error(n, err)
				}
			})))
			defer s.Close()
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); string(body) != "copied" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
}

// Every set of abilities is kept as it is.
func TestEveryWriterKeepsWhatItCan(t *testing.T) {
	type base struct{ http.ResponseWriter }
	type f struct{ http.Flusher }
	type h struct{ http.Hijacker }
	type c struct{ io.ReaderFrom }
	type p struct{ http.Pusher }
	var w base
	w.ResponseWriter = struct{ http.ResponseWriter }{httptest.NewRecorder()} // which cannot do anything
	for _, w := range []http.ResponseWriter{
		w, struct {
			base
			f
		}{base: w}, struct {
			base
			h
		}{base: w}, struct {
			base
			f
			h
		}{base: w}, struct {
			base
			c
		}{base: w}, struct {
			base
			f
			c
		}{base: w}, struct {
			base
			h
			c
		}{base: w}, struct {
			base
			f
			h
			c
		}{base: w}, struct {
			base
			p
		}{base: w}, struct {
			base
			f
			p
		}{base: w}, struct {
			base
			h
			p
		}{base: w}, struct {
			base
			f
			h
			p
		}{base: w}, struct {
			base
			c
			p
		}{base: w}, struct {
			base
			f
			c
			p
		}{base: w}, struct {
			base
			h
			c
			p
		}{base: w}, struct {
			base
			f
			h
			c
			p
		}{base: w},
	} {
		var inner string
		m := middleware(t, limiter(t, "1000/s"), &httplimit.Config{Count: httplimit.CountSuccesses})
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner = can(w) })).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		// io.WriteString does without one: it is always there.
		if want := strings.TrimSpace(strings.TrimSuffix(can(w), "StringWriter") + " StringWriter"); inner != strings.Join(strings.Fields(want), " ") {
			t.Errorf("the server's writer can %q, the handler's %q", can(w), inner)
		}
	}
}

// The status that counts is the first that is final.
func TestStatusThatCounts(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  int64 // what remains of 10
	}{
		"nothing is written": {func(http.ResponseWriter, *http.Request) {}, 10},
		"a body":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }, 10},
		"a body, then a status": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.WriteHeader(http.StatusInternalServerError)
		}, 10},
		"a flush":   {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 10},
		"a failure": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, 9},
		"an early hint": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
		}, 9},
		"a panic": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 9},
		"a panic after a success": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			panic(http.ErrAbortHandler)
		}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, "10/h")
			h := middleware(t, l, &httplimit.Config{Count: httplimit.CountFailures}).Wrap(c.serve)
			func() {
				defer func() { _ = recover() }()
				get(h)
			}()
			d, err := l.Peek(t.Context(), "192.0.2.1")
			if err != nil || d.Remaining != c.want {
				t.Errorf("%d remain, %v; want %d", d.Remaining, err, c.want)
			}
		})
	}
}

// A handler that is answered for does not run, whatever it is.
func TestRefusedDoesNotReachTheHandler(t *testing.T) {
	h := middleware(t, limiter(t, "none"), nil).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it ran") }))
	if w := get(h); w.Code != http.StatusTooManyRequests {
		t.Error(w.Code)
	}
}
