package remotestore

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "the-token-of-the-tests"

// server is a gRPC server with the service under way, on a socket of its own.
type server struct {
	*grpc.Server
	addr string
}

// serve puts a store behind a service, and ends both with the test.
func serve(tb testing.TB, cfg storeservice.Config, options ...grpc.ServerOption) *server {
	tb.Helper()
	return serveOn(tb, "127.0.0.1:0", cfg, options...)
}

func serveOn(tb testing.TB, address string, cfg storeservice.Config, options ...grpc.ServerOption) *server {
	tb.Helper()
	if cfg.Token == "" {
		cfg.Token = secret
	}
	service, err := storeservice.New(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var l net.Listener
	until(tb, "listen on "+address, func() bool { // the one before may still have it
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	return serveListener(tb, l, service, options...)
}

func serveListener(tb testing.TB, l net.Listener, service *storeservice.Service, options ...grpc.ServerOption) *server {
	tb.Helper()
	s := &server{grpc.NewServer(append(options, grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(1<<20))...), l.Addr().String()}
	service.Register(s)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return s
}

// memory returns a store in memory that is closed with the test.
func memory(tb testing.TB, now func() time.Time) *memstore.Store {
	tb.Helper()
	s := memstore.New(&memstore.Config{Now: now})
	tb.Cleanup(func() { s.Close() })
	return s
}

// open returns a store that has the token, and closes it with the test.
func open(tb testing.TB, address string, cfg *Config) *Store {
	tb.Helper()
	own := Config{}
	if cfg != nil {
		own = *cfg
	}
	if own.Token == "" {
		own.Token = secret
	}
	s, err := Open(address, &own)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func parseLimit(tb testing.TB, text string) *tidegate.Limit {
	tb.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	return &l
}

func newCharge(tb testing.TB, key, limit string, cost int64) tidegate.Charge {
	tb.Helper()
	return tidegate.Charge{Rule: "rule", Key: key, Limit: parseLimit(tb, limit), Cost: cost}
}

func mustTake(tb testing.TB, s tidegate.Store, charges ...tidegate.Charge) []tidegate.Decision {
	tb.Helper()
	ds, err := s.Take(context.Background(), charges, nil)
	if err != nil {
		tb.Fatalf("take: %v", err)
	}
	return ds
}

// until calls f until it is true, and fails the test when that takes too long.
func until(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-late.C:
			tb.Fatalf("%s: not in 20 s", what)
		}
	}
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}
