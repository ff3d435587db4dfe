package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate/memstore"
)

// served is a server under way on a free port.
type served struct {
	url  string
	end  context.CancelFunc
	done chan error
}

func serve(t *testing.T, s *Server) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sv := &served{"http://" + l.Addr().String(), cancel, make(chan error, 1)}
	go func() { sv.done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		_ = sv.wait() // the test has asked, if it is about that
	})
	return sv
}

// wait returns what Serve did.
func (sv *served) wait() error {
	err := <-sv.done
	sv.done <- err
	return err
}

func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// send returns the status of the answer, or what went wrong.
func send(c *http.Client, method, url, body string) (int, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// A shutdown says so on /readyz, lets the running request finish, takes no new one, and then ends well.
func TestShutdownDrains(t *testing.T) {
	store := newFaultyStore(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	store.onTake = func() {
		entered <- struct{}{}
		<-leave
	}
	s := newServerOn(t, store, nil)
	sv := serve(t, s)
	c := client(t)
	if status, err := send(c, http.MethodGet, sv.url+"/readyz", ""); status != http.StatusOK {
		t.Fatalf("/readyz is %d, %v", status, err)
	}
	running := make(chan int)
	go func() {
		status, err := send(c, http.MethodPost, sv.url+"/v1/take", `{"rule":"example","key":"k"}`)
		if err != nil {
			t.Error(err)
		}
		running <- status
	}()
	<-entered
	sv.end()
	for refused := false; !refused; { // until the listener is closed
		conn, err := net.Dial("tcp", strings.TrimPrefix(sv.url, "http://"))
		if refused = err != nil; !refused {
			conn.Close()
		}
	}
	wantError(t, call(s, http.MethodGet, "/readyz", ""), http.StatusServiceUnavailable, "shutting down")
	close(leave)
	if status := <-running; status != http.StatusOK {
		t.Errorf("the running request got %d", status)
	}
	if err := sv.wait(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// With a delay the server goes on as before, but for /readyz.
func TestShutdownDelayKeepsServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, &Config{ShutdownDelay: time.Minute})
		l := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Serve(ctx, l) }()
		get := func(path string) int {
			conn := l.dial()
			defer conn.Close()
			go io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if got := get("/readyz"); got != http.StatusOK {
			t.Errorf("/readyz is %d", got)
		}
		start := time.Now()
		cancel()
		synctest.Wait()
		if got := get("/readyz"); got != http.StatusServiceUnavailable {
			t.Errorf("/readyz is %d while shutting down", got)
		}
		if got := get("/healthz"); got != http.StatusOK {
			t.Errorf("/healthz is %d while shutting down", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Minute || took > 2*time.Minute {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

// A request that outlasts the drain is cut off, and Serve says so.
func TestDrainEnds(t *testing.T) {
	store := newFaultyStore(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	store.onTake = func() {
		close(entered)
		<-leave
	}
	sv := serve(t, newServerOn(t, store, &Config{DrainTime: time.Millisecond}))
	cut := make(chan error)
	c := client(t)
	go func() {
		_, err := send(c, http.MethodPost, sv.url+"/v1/take", `{"rule":"example","key":"k"}`)
		cut <- err
	}()
	<-entered
	sv.end()
	if err := sv.wait(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve returned %v", err)
	}
	if <-cut == nil {
		t.Error("the request that outlasted the drain was answered")
	}
	close(leave)
}

// Clients that send nothing, or too slowly, are let go.
func TestSlowClientsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		l := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Serve(ctx, l) }()
		for _, c := range []struct {
			sends, gets string
			within      time.Duration
		}{
			{"POST /v1/take HTTP/1.1\r\nHost: x\r\n", "", headerTimeout},
			{"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", "408 Request Timeout", readTimeout},
			{"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", idleTimeout},
		} {
			conn := l.dial()
			start := time.Now()
			go io.WriteString(conn, c.sends)
			got, _ := io.ReadAll(conn) // until the server closes it
			if took := time.Since(start); took > c.within+time.Second || !strings.Contains(string(got), c.gets) {
				t.Errorf("%q was let go after %v with %q", c.sends, took, got)
			}
			conn.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestBrokenListenerEndsServe(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	s := newServerOn(t, store, nil)
	l := newPipeListener()
	l.Close()
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "listener") {
		t.Errorf("Serve returned %v", err)
	}
}

// pipeListener accepts connections that need no network, for virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
