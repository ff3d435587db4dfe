package redisstore

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// verdict is what a proxy does with what it was about to pass on.
type verdict int

const (
	pass verdict = iota
	drop         // say nothing
	cut          // close the connection
)

// proxy stands between a store and its server on a unix socket. It passes everything on until it is told otherwise.
type proxy struct {
	network, addr string // of the server
	socket        string // of the proxy

	// onRequest and onReply are asked for each piece of data before it is passed on, and may take their time.
	onRequest, onReply atomic.Pointer[func() verdict]

	listener net.Listener
	mu       sync.Mutex
	closed   bool
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newProxy(tb testing.TB, srv *redistest.Server) *proxy {
	tb.Helper()
	p := &proxy{network: srv.Network, addr: srv.Addr, socket: filepath.Join(tb.TempDir(), "s")}
	var err error
	if p.listener, err = net.Listen("unix", p.socket); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.close)
	p.wg.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.serve(client)
		}
	})
	return p
}

// url returns the URL of a single server behind the proxy.
func (p *proxy) url() string { return (&url.URL{Scheme: "unix", Path: p.socket}).String() }

func (p *proxy) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", p.socket)
}

// set makes f answer for the requests or the replies; nil passes everything.
func set(hook *atomic.Pointer[func() verdict], f func() verdict) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial(p.network, p.addr)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		client.Close()
		server.Close()
		return
	}
	p.conns = append(p.conns, client, server)
	p.wg.Go(func() { forward(server, client, &p.onRequest) })
	p.wg.Go(func() { forward(client, server, &p.onReply) })
}

// forward passes on what comes from src until either side closes, and then closes both.
func forward(dst, src net.Conn, hook *atomic.Pointer[func() verdict]) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		v := pass
		if f := hook.Load(); f != nil {
			v = (*f)()
		}
		switch v {
		case pass:
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		case drop:
		case cut:
			return
		}
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
