package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// lossy is a store that reaches its servers through proxies, and one that reaches them directly.
type lossy struct {
	name          string
	store, direct *Store
	proxies       []*proxy
	servers       []*redistest.Server
}

// lose makes the next reply get lost: the server does what it is asked, and nobody hears of it. Whoever asks again is
// heard. With pass, nothing is lost any more.
func (l *lossy) lose(v verdict) {
	var lost atomic.Bool
	for _, p := range l.proxies {
		if v == pass {
			set(&p.onReply, nil)
			continue
		}
		set(&p.onReply, func() verdict {
			if lost.CompareAndSwap(false, true) {
				return v
			}
			return pass
		})
	}
}

// scriptCalls returns how many scripts the servers were asked to run.
func (l *lossy) scriptCalls(t *testing.T) int {
	t.Helper()
	n := 0
	for _, srv := range l.servers {
		stats := commandStats(t, srv)
		n += stats["evalsha"] + stats["eval"]
	}
	return n
}

// lossyStores returns one of each way to make a store, on clients that by themselves would try again.
func lossyStores(t *testing.T) []*lossy {
	t.Helper()
	cfg := func() *Config { return &Config{Timeout: 300 * time.Millisecond} }
	srv := redistest.Start(t)
	direct := openStore(t, srv.URL(), nil)
	single := func(name string, open func(p *proxy) *Store) *lossy {
		p := newProxy(t, srv)
		return &lossy{name: name, store: open(p), direct: direct, proxies: []*proxy{p}, servers: []*redistest.Server{srv}}
	}
	all := []*lossy{
		single("url", func(p *proxy) *Store { return openStore(t, p.url()+"?max_retries=5", cfg()) }),
		single("client", func(p *proxy) *Store {
			return storeOn(t, redis.NewClient(&redis.Options{Network: "unix", Addr: p.socket, MaxRetries: 5}), cfg())
		}),
	}

	clu := redistest.StartCluster(t)
	l := &lossy{name: "cluster client", direct: openStore(t, clu.URL(), nil), servers: clu.Nodes}
	byAddr := map[string]*proxy{}
	for i, n := range clu.Nodes {
		byAddr[clu.Addrs[i]] = newProxy(t, n)
		l.proxies = append(l.proxies, byAddr[clu.Addrs[i]])
	}
	l.store = storeOn(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: clu.Addrs, MaxRetries: 5, MaxRedirects: 5,
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) { return byAddr[addr].dial(ctx) },
	}), cfg())
	return append(all, l)
}

// wantStoreError fails the test unless err is a failure of the store.
func wantStoreError(t *testing.T, err error) {
	t.Helper()
	var se *tidegate.StoreError
	if !errors.As(err, &se) || !errors.Is(err, tidegate.ErrStore) {
		t.Errorf("the error is %v (%T), not a StoreError", err, err)
	}
}

// TestLostReply: a take whose reply is lost is an error and was charged once, never again behind the caller's back.
func TestLostReply(t *testing.T) {
	ctx := context.Background()
	for _, l := range lossyStores(t) {
		for _, k := range kinds {
			if k.cold() {
				continue // nothing to charge
			}
			for v, how := range map[verdict]string{drop: "dropped", cut: "cut"} {
				if v == drop && k.name != "token bucket" && k.name != "permits" {
					continue // each takes its time
				}
				t.Run(l.name+"/"+k.name+"/"+how, func(t *testing.T) {
					c := newCharge(t, k.name, l.name+how, k.limit, 1)
					mustTake(t, l.store, c) // connects, and loads the script
					if c.ID != "" {
						c.ID += "-2"
					}
					before := l.scriptCalls(t)
					l.lose(v)
					ds, err := l.store.Take(ctx, []tidegate.Charge{c}, nil)
					l.lose(pass)
					wantStoreError(t, err)
					if len(ds) != 0 {
						t.Errorf("it decided %+v", ds)
					}
					if n := l.scriptCalls(t) - before; n != 1 {
						t.Errorf("the server ran %d scripts, not one", n)
					}
					if n := remaining(t, l.direct, c); n != 8 {
						t.Errorf("%d remain, not 8", n)
					}
					if n := remaining(t, l.store, c); n != 8 {
						t.Errorf("by the store itself, once it hears again: %d remain, not 8", n)
					}
				})
			}
		}
	}
}

// TestLostReplyOfTheOthers: what a settle, a release and a refund did is done once too.
func TestLostReplyOfTheOthers(t *testing.T) {
	ctx := context.Background()
	for _, l := range lossyStores(t) {
		t.Run(l.name, func(t *testing.T) {
			c := newCharge(t, l.name, "k", "10/1000h", 6)
			c.ID, c.Hold = "reservation", time.Hour
			charges := []tidegate.Charge{c}
			permit := newCharge(t, l.name, "permit", "10 concurrent", 3)
			permits := []tidegate.Charge{permit}
			mustTake(t, l.store, c)
			mustTake(t, l.store, permit)
			for _, err := range []error{l.direct.Settle(ctx, "unknown", charges, 0), l.direct.Release(ctx, "unknown", permits)} {
				if !errors.Is(err, tidegate.ErrUnknownID) { // and the servers know the scripts from here
					t.Fatal(err)
				}
			}

			lost := func(what string, f func() error) {
				t.Helper()
				remaining(t, l.store, c) // connects
				remaining(t, l.store, permit)
				before := l.scriptCalls(t)
				l.lose(cut)
				err := f()
				l.lose(pass)
				wantStoreError(t, err)
				if n := l.scriptCalls(t) - before; n != 1 {
					t.Errorf("%s: the server ran %d scripts, not one", what, n)
				}
			}
			lost("settle", func() error { return l.store.Settle(ctx, c.ID, charges, 4) })
			if n := remaining(t, l.direct, c); n != 6 {
				t.Errorf("settled for 4: %d remain, not 6", n)
			}
			if err := l.store.Settle(ctx, c.ID, charges, 0); !errors.Is(err, tidegate.ErrUnknownID) {
				t.Errorf("settled again: %v", err)
			}
			lost("refund", func() error {
				refund := newCharge(t, l.name, "k", "10/1000h", -1)
				_, err := l.store.Take(ctx, []tidegate.Charge{refund}, nil)
				return err
			})
			if n := remaining(t, l.direct, c); n != 7 {
				t.Errorf("refunded 1: %d remain, not 7", n)
			}
			lost("renew", func() error { return l.store.Renew(ctx, permit.ID, permits) })
			lost("release", func() error { return l.store.Release(ctx, permit.ID, permits) })
			if n := remaining(t, l.direct, permit); n != 10 {
				t.Errorf("released: %d permits remain, not 10", n)
			}
		})
	}
}

// TestLostReplyOfABatch: when the reply to many takes that left together is lost, each of their callers is told so, and
// each was charged once.
func TestLostReplyOfABatch(t *testing.T) {
	const callers = 50
	srv := redistest.Start(t)
	p := newProxy(t, srv)
	s := openStore(t, p.url(), &Config{PoolSize: 1, Timeout: 30 * time.Second})
	direct := openStore(t, srv.URL(), nil)
	for name, limit := range map[string]string{"plain buckets": "1000/1000h", "windows": "1000/9000h fixed-window"} {
		t.Run(name, func(t *testing.T) {
			c := newCharge(t, "batch", name, limit, 1)
			mustTake(t, s, c)
			held, release := make(chan struct{}), make(chan struct{})
			var replies atomic.Int64
			set(&p.onReply, func() verdict {
				switch replies.Add(1) {
				case 1: // while it is held, the others gather behind it
					close(held)
					<-release
				case 2:
					return cut
				}
				return pass
			})
			var allowed, lost, there atomic.Int64
			var wg sync.WaitGroup
			take := func() {
				there.Add(1)
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				switch {
				case err == nil && ds[0].Allowed:
					allowed.Add(1)
				case errors.Is(err, tidegate.ErrStore):
					lost.Add(1)
				default:
					t.Errorf("%+v, %v", ds, err)
				}
			}
			wg.Go(take)
			<-held
			for range callers - 1 {
				wg.Go(take)
			}
			eventually(t, 10*time.Second, "all callers are there", func() error {
				if n := there.Load(); n < callers {
					return fmt.Errorf("%d of %d", n, callers)
				}
				return nil
			})
			close(release)
			wg.Wait()
			set(&p.onReply, nil)
			if lost.Load() == 0 || allowed.Load() == 0 || lost.Load()+allowed.Load() != callers {
				t.Errorf("%d were allowed, and %d lost their reply", allowed.Load(), lost.Load())
			}
			if n := remaining(t, direct, c); n != 1000-1-callers {
				t.Errorf("%d takes, of which %d lost their reply, charged %d", callers, lost.Load(), 1000-1-n)
			}
		})
	}
}

// three returns charges of one take, of three limits of one key.
func three(t *testing.T, key string, limit string) []tidegate.Charge {
	t.Helper()
	return []tidegate.Charge{newCharge(t, "a", key, limit, 1), newCharge(t, "b", key, limit, 1), newCharge(t, "c", key, limit, 1)}
}

// TestCallerGoesAway: a take of three charges whose caller goes away in the middle has charged all or none (RB-089).
func TestCallerGoesAway(t *testing.T) {
	srv := redistest.Start(t)
	p := newProxy(t, srv)
	s := openStore(t, p.url(), &Config{Timeout: time.Minute})
	direct := openStore(t, srv.URL(), nil)
	mustTake(t, s, three(t, "load", "10/1000h")...)

	for name, hook := range map[string]*atomic.Pointer[func() verdict]{"before the server was asked": &p.onRequest, "before the server is heard": &p.onReply} {
		t.Run(name, func(t *testing.T) {
			charges := three(t, name, "10/1000h")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			held, release := make(chan struct{}, 1), make(chan struct{})
			set(hook, func() verdict {
				held <- struct{}{}
				<-release
				return pass
			})
			answer := make(chan error, 1)
			go func() {
				_, err := s.Take(ctx, charges, nil)
				answer <- err
			}()
			<-held
			cancel()
			set(hook, nil)
			close(release)
			err := <-answer
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			// Whoever does not wait for the reply leaves a take behind that is still on its way.
			eventually(t, 10*time.Second, "the take arrives", func() error {
				for i := range charges {
					if n := remaining(t, direct, charges[i]); n != 9 {
						return fmt.Errorf("of limit %s %d remain, not 9", charges[i].Rule, n)
					}
				}
				return nil
			})
		})
	}
	t.Run("at any moment", func(t *testing.T) {
		const takes, callers = 400, 8
		charges := three(t, "any", "100000/1000h")
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range takes / callers {
					ctx, cancel := context.WithCancel(context.Background())
					stop := time.AfterFunc(time.Duration(rand.Int64N(1_500_000)), cancel)
					_, err := s.Take(ctx, charges, nil)
					stop.Stop()
					cancel()
					if err == nil {
						allowed.Add(1)
					} else if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		// One moment for all three.
		var used [3]int64
		last := int64(-1)
		eventually(t, 10*time.Second, "what is on its way arrives", func() error {
			peek := three(t, "any", "100000/1000h")
			for i := range peek {
				peek[i].Cost = 0
			}
			for i, d := range mustTake(t, direct, peek...) {
				used[i] = d.Limit - d.Remaining
			}
			if used[0] != last {
				last = used[0]
				return errors.New("still moving")
			}
			return nil
		})
		if used[0] != used[1] || used[0] != used[2] {
			t.Errorf("charged %v times: not all or nothing", used)
		}
		if used[0] < allowed.Load() || used[0] > takes {
			t.Errorf("charged %d times, but %d of %d were told so", used[0], allowed.Load(), takes)
		}
		t.Logf("%d of %d takes were decided, %d charged", allowed.Load(), takes, used[0])
	})
}
