//go:build unix

package redisstore

import (
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// relay stands between a store and a server on a port, and may answer in the server's place.
//
// It is also a listener that does not accept: its backlog is short, and is full once somebody fills it.
type relay struct {
	server   string
	listener net.Listener
	answer   atomic.Pointer[string] // to each command; empty: nothing
	gate     sync.Mutex             // held while nothing is accepted
	mu       sync.Mutex
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	l := listenShort(t)
	r := &relay{server: server, listener: l}
	r.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.gate.Lock()
			r.gate.Unlock() //nolint:staticcheck // only to wait
			r.wg.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

func (r *relay) url() string { return "redis://" + r.listener.Addr().String() }

// cut closes what is open.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// deafen stops accepting, and fills the backlog, so that nobody who dials is answered. The function that it returns ends that.
func (r *relay) deafen(t *testing.T) (hear func()) {
	t.Helper()
	r.gate.Lock()
	r.cut()
	var held []net.Conn
	hear = sync.OnceFunc(func() {
		for _, c := range held {
			c.Close()
		}
		r.gate.Unlock()
	})
	t.Cleanup(hear)
	for range 100 {
		c, err := net.DialTimeout("tcp", r.listener.Addr().String(), 100*time.Millisecond)
		if err != nil {
			return hear
		}
		held = append(held, c)
	}
	t.Fatal("the backlog is never full")
	return hear
}

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	r.wg.Go(func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if text := r.answer.Load(); text != nil {
			commands := strings.Count("\r\n"+string(buf[:n]), "\r\n*")
			if _, err := client.Write([]byte(strings.Repeat(*text, commands))); err != nil {
				return
			}
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// listenShort listens with a backlog for one or two.
func listenShort(t *testing.T) net.Listener {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close() // the listener has its own
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
