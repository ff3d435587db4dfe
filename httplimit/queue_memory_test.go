//go:build !race

// Under the race detector there cannot be as many goroutines as this needs: make test runs it without.

package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// pipes is a listener whose connections are in memory, so that there can be more of them than files, and time is virtual.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{made: make(chan net.Conn), closed: make(chan struct{})} }

// Accept returns the server's end of a connection.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is of no network.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial returns the client's end of a connection.
func (p *pipes) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.made <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// slowClient sends a request byte by byte, so to speak, and reads the answer late. It returns the status, and when it came.
func slowClient(p *pipes) (int, time.Duration, error) {
	start := time.Now()
	c, err := p.dial()
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	for _, part := range []string{"GET / HTTP/1.1\r\n", "Host: api\r\nConnection: close\r\n", "\r\n"} {
		time.Sleep(100 * time.Millisecond)
		if _, err := io.WriteString(c, part); err != nil {
			return 0, 0, err
		}
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	took := time.Since(start)
	time.Sleep(100 * time.Millisecond)
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, took, err
}

// slowCrowd lets so many slow clients ask a server at once, and returns by status when they were answered.
func slowCrowd(t *testing.T, p *pipes, n int) map[int][]time.Duration {
	t.Helper()
	answers := make(map[int][]time.Duration)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			status, took, err := slowClient(p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			answers[status] = append(answers[status], took)
		})
	}
	group.Wait()
	return answers
}

// heap is what is in use when all garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the pools are empty after two
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// 10,000 slow clients of a server of net/http with a queue of 100: 100 wait, the others are answered at once, and round after
// round leaves no memory behind.
func TestQueueMemoryIsFlat(t *testing.T) {
	const clients, rounds, some = 10_000, 4, 512 << 10
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "10 concurrent"), &httplimit.Config{
			Attribute: func(_ *http.Request, name string) (string, bool) { return "all", name == "ip" },
			Queue:     httplimit.Queue{Length: 100, Wait: 550 * time.Millisecond},
		})
		server := &http.Server{Handler: m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(100 * time.Millisecond)
		}))}
		p := newPipes()
		served := make(chan error, 1)
		go func() { served <- server.Serve(p) }()

		var heaps []uint64
		flat := false
		for round := range rounds {
			var waited atomic.Int64
			time.AfterFunc(350*time.Millisecond, func() { waited.Store(int64(m.Waiting())) })
			answers := slowCrowd(t, p, clients)
			passed, refused := answers[http.StatusOK], answers[http.StatusTooManyRequests]
			if waited.Load() != 100 {
				t.Errorf("round %d: %d wait, want 100", round, waited.Load())
			}
			// 10 at once, and 10 more each 100 ms, five times; then the time of the others is up.
			if n := len(passed); n != 60 || n+len(refused) != clients {
				t.Errorf("round %d: %d served and %d refused of %d, want 60 served", round, n, len(refused), clients)
			}
			atOnce := 0
			for _, took := range refused {
				switch took {
				case 300 * time.Millisecond: // which the client took to ask
					atOnce++
				case 850 * time.Millisecond:
				default:
					t.Errorf("round %d: one was refused after %v", round, took)
				}
			}
			if atOnce != clients-110 {
				t.Errorf("round %d: %d were refused at once, want %d", round, atOnce, clients-110)
			}
			if m.Waiting() != 0 || m.Lines() != 0 {
				t.Errorf("round %d: %d wait, in %d lines", round, m.Waiting(), m.Lines())
			}
			time.Sleep(time.Second) // the server closes a connection only when its client has had time to read
			// What leaks does so in each round. In one or the other the heap grows all the same, since more goroutines than ever
			// before run at once, whose records the runtime keeps.
			heaps = append(heaps, heap())
			flat = flat || round > 0 && heaps[round] < heaps[round-1]+some
		}
		if !flat {
			t.Errorf("the heap grows from round to round: %d bytes", heaps)
		}
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
