package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// room is what a call may take beyond its deadline on a loaded machine.
func room() time.Duration {
	if raceDetector {
		return 5 * time.Second
	}
	return time.Second
}

const password = "s3cr3t-w0rd"

// wantWithin fails the test unless f returns a failure of the store, or of its context, within the time and room.
func wantWithin(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	start := time.Now()
	err := f()
	if took := time.Since(start); took > limit+room() {
		t.Errorf("it took %v, not %v", took, limit)
	}
	switch {
	case err == nil:
		t.Error("no error")
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, tidegate.ErrStore):
	default:
		wantStoreError(t, err)
	}
	if err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("the error names the password: %v", err)
	}
	return err
}

// silentListener accepts connections and never says a word.
func silentListener(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func urlOf(address, options string) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: address, RawQuery: options}
	return u.String()
}

// TestNoAnswer: a call ends at the store's timeout or the caller's deadline, whichever is first, when nothing answers.
func TestNoAnswer(t *testing.T) {
	c := newCharge(t, "silent", "k", "10/1000h", 1)
	charges := []tidegate.Charge{c}
	permits := []tidegate.Charge{newCharge(t, "permits", "k", "1 concurrent", 1)}
	calls := map[string]func(ctx context.Context, s *Store) error{
		"take":    func(ctx context.Context, s *Store) error { _, err := s.Take(ctx, charges, nil); return err },
		"settle":  func(ctx context.Context, s *Store) error { return s.Settle(ctx, "id", charges, 1) },
		"renew":   func(ctx context.Context, s *Store) error { return s.Renew(ctx, "id", permits) },
		"release": func(ctx context.Context, s *Store) error { return s.Release(ctx, "id", permits) },
		"reset":   func(ctx context.Context, s *Store) error { return s.Reset(ctx, charges) },
		"now":     func(ctx context.Context, s *Store) error { _, err := s.Now(ctx); return err },
	}
	paused := redistest.StartTCP(t, "--requirepass", password)
	connected := func(cfg *Config) *Store {
		s := openStore(t, paused.URL(), cfg)
		mustTake(t, s, c)
		return s
	}
	const timeout, deadline = 150 * time.Millisecond, 50 * time.Millisecond
	short, long := &Config{Timeout: timeout}, &Config{Timeout: time.Minute}
	connectedShort, connectedLong := connected(short), connected(long)
	paused.Pause()
	silent := silentListener(t)
	for _, v := range []struct {
		name        string
		short, long *Store
	}{
		{"paused and connected", connectedShort, connectedLong},
		{"paused", openStore(t, paused.URL(), short), openStore(t, paused.URL(), long)},
		{"silent", openStore(t, urlOf(silent, ""), short), openStore(t, urlOf(silent, ""), long)},
		{"silent, with options of its own", openStore(t, urlOf(silent, "dial_timeout=1m&read_timeout=1m&write_timeout=1m&pool_timeout=1m&max_retries=9"), short), openStore(t, urlOf(silent, "read_timeout=-1"), long)},
	} {
		for verb, call := range calls {
			if verb != "take" && v.name != "silent" {
				continue // each takes its time
			}
			t.Run(v.name+"/"+verb, func(t *testing.T) {
				err := wantWithin(t, timeout, func() error { return call(context.Background(), v.short) })
				wantStoreError(t, err)
				if err != nil && !strings.Contains(err.Error(), timeout.String()) {
					t.Errorf("the error does not tell the timeout: %v", err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), deadline)
				defer cancel()
				err = wantWithin(t, deadline, func() error { return call(ctx, v.long) })
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidegate.ErrStore) {
					t.Errorf("with a deadline of the caller's own the error is %v, not the context's", err)
				}
			})
		}
	}
}

// TestCallersDeadlineIsTheCallers: whichever of the socket and the context notices first that a caller's deadline is
// over, it is not the store's failure.
func TestCallersDeadlineIsTheCallers(t *testing.T) {
	s := openStore(t, urlOf(silentListener(t), ""), &Config{Timeout: time.Minute, PoolSize: 64})
	charges := []tidegate.Charge{newCharge(t, "deadline", "k", "10/1000h", 1)}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				_, err := s.Take(ctx, charges, nil)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidegate.ErrStore) {
					t.Errorf("the error is %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestRefused: where nobody listens, a call fails at once.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	socket := url.URL{Scheme: "unix", User: url.UserPassword("", password), Path: filepath.Join(t.TempDir(), "nobody")}
	for name, address := range map[string]string{
		"port":     urlOf(free, ""),
		"socket":   socket.String(),
		"cluster":  "redis+cluster://:" + password + "@" + free,
		"sentinel": "redis+sentinel://:" + password + "@" + free + "/master",
		"retries":  urlOf(free, "max_retries=9"),
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, address, &Config{Timeout: time.Minute})
			charges := []tidegate.Charge{newCharge(t, "refused", "k", "10/1000h", 1)}
			start := time.Now()
			defer func() { // all of them, let alone one
				if took := time.Since(start); took > room() {
					t.Errorf("they took %v", took)
				}
			}()
			for range 2 * runtime.GOMAXPROCS(0) * 10 { // and beyond a pool's worth of connections
				err := wantWithin(t, 0, func() error { _, err := s.Take(context.Background(), charges, nil); return err })
				if !strings.Contains(fmt.Sprint(err), "no such file") && !errors.Is(err, syscall.ECONNREFUSED) && name != "sentinel" {
					t.Fatalf("the error is %v", err)
				}
			}
		})
	}
	// The pools keep trying in the background, once a second, until they are closed.
	t.Cleanup(func() {
		eventually(t, 10*time.Second, "the pools give up", func() error {
			stacks := make([]byte, 1<<20)
			if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "tryDial") {
				return errors.New("still dialing")
			}
			return nil
		})
	})
}

// TestWrongPassword: the server's refusal is told, at once and without the password.
func TestWrongPassword(t *testing.T) {
	srv := redistest.StartTCP(t, "--requirepass", "another")
	s := openStore(t, urlOf(srv.Addr, ""), &Config{Timeout: time.Minute})
	charges := []tidegate.Charge{newCharge(t, "password", "k", "10/1000h", 1)}
	err := wantWithin(t, 0, func() error { _, err := s.Take(context.Background(), charges, nil); return err })
	if err != nil && !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the error is %v", err)
	}
}

// TestSmallPool: a hundred callers share one connection, also through a pause of the server.
func TestSmallPool(t *testing.T) {
	const callers = 100
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{PoolSize: 1, Timeout: 30 * time.Second})
	c := newCharge(t, "pool", "k", "50/1000h", 1)
	ready := newCharge(t, "pool", "ready", "50/1000h", 1)
	mustTake(t, s, ready)
	var allowed, denied, waiting atomic.Int64
	srv.Pause()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			waiting.Add(1)
			ds, err := s.Take(ctx, []tidegate.Charge{c}, nil)
			switch {
			case err != nil:
				t.Error(err)
			case ds[0].Allowed:
				allowed.Add(1)
			default:
				denied.Add(1)
			}
		})
	}
	eventually(t, 10*time.Second, "all callers are there", func() error {
		if n := waiting.Load(); n < callers {
			return fmt.Errorf("%d of %d", n, callers)
		}
		return nil
	})
	srv.Resume()
	wg.Wait()
	if allowed.Load() != 50 || denied.Load() != 50 {
		t.Errorf("%d were allowed and %d denied, not 50 each", allowed.Load(), denied.Load())
	}
}

// TestFullPool: while the only connection waits for a paused server, nobody else waits longer than the timeout.
func TestFullPool(t *testing.T) {
	const timeout = 200 * time.Millisecond
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{PoolSize: 1, Timeout: timeout})
	charges := []tidegate.Charge{newCharge(t, "pool", "k", "1000/1000h", 1)}
	mustTake(t, s, charges...)
	srv.Pause()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_ = wantWithin(t, timeout, func() error { _, err := s.Take(context.Background(), charges, nil); return err })
		})
	}
	wg.Wait()
	srv.Resume()
	eventually(t, 10*time.Second, "takes work again", func() error {
		_, err := s.Take(context.Background(), charges, nil)
		return err
	})
}

// TestServerComesBack: a store outlives the death of its server.
func TestServerComesBack(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{PoolSize: 2})
	c := newCharge(t, "back", "k", "10/1000h", 1)
	mustTake(t, s, c)
	srv.Kill()
	for range 5 {
		_ = wantWithin(t, 0, func() error { _, err := s.Take(context.Background(), []tidegate.Charge{c}, nil); return err })
	}
	srv.Restart()
	start := time.Now()
	eventually(t, 10*time.Second, "takes work again", func() error {
		_, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
		return err
	})
	t.Logf("after %v", time.Since(start))
	if n := remaining(t, s, c); n != 9 { // what was refused while it was away was not charged later
		t.Errorf("%d remain, not 9", n)
	}
}
