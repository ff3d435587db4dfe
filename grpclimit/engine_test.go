package grpclimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
)

// newEngine returns an engine of the rules, as a file has them in its list.
func newEngine(tb testing.TB, list string) *rules.Engine {
	tb.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+list))
	if err != nil {
		tb.Fatal(err)
	}
	store := memstore.New(nil)
	tb.Cleanup(func() { store.Close() })
	e, err := rules.New(store, set, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// remaining is what is left of a rule without a key.
func remaining(tb testing.TB, e *rules.Engine, rule string) int64 {
	tb.Helper()
	d, err := e.TakeKey(context.Background(), rule, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// takes makes a unary call whose handler takes a time.
func takes(ctx context.Context, s *Server, d time.Duration) error {
	_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) {
		time.Sleep(d)
		return "", nil
	})
	return err
}

// A rule of permits in an engine made every call UNAVAILABLE. A call holds one until it has ended, whatever its time, and one that
// finds none is charged nothing and told to come again soon.
func TestEngineOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "  - {name: rate, limit: 100/day}\n  - {name: busy, limit: 1 concurrent ttl 3s}\n")
		s := newServer(t, e, nil)
		go func() { _ = takes(t.Context(), s, time.Minute) }()
		for range 20 {
			time.Sleep(2 * time.Second)
			err := unary(t.Context(), s)
			wantCode(t, err, codes.ResourceExhausted)
			if d, ok := RetryDelay(err); !ok || d != time.Second {
				t.Fatalf("RetryDelay %v %v, want 1s", d, ok)
			}
		}
		if n := remaining(t, e, "rate"); n != 99 {
			t.Errorf("%d left of the rate, want 99", n)
		}
		time.Sleep(21 * time.Second)
		wantCode(t, unary(t.Context(), s), codes.OK)
		if n := remaining(t, e, "busy"); n != 1 {
			t.Errorf("%d permits are back, want 1", n)
		}
	})
}

// Messages are charged by the rates of an engine, and take no permit beside their stream's.
func TestEngineChargesMessages(t *testing.T) {
	e := newEngine(t, "  - {name: rate, limit: 10/day}\n  - {name: busy, limit: 1 concurrent}\n")
	s := newServer(t, e, &ServerConfig{ReceiveCost: One, TellAllowed: true})
	stream := duplex(t, t.Context(), dial(t, serve(t, s, &service{}), nil))
	for i := range 3 {
		if err := talk(stream, i); err != nil {
			t.Fatal(err)
		}
	}
	if rate, busy := remaining(t, e, "rate"), remaining(t, e, "busy"); rate != 6 || busy != 0 {
		t.Errorf("%d and %d left, want 6 and 0", rate, busy)
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv()
	eventually(t, "the permit is back", func() bool { return remaining(t, e, "busy") == 1 })
}

// Calls wait for what comes with time, in order, and for permits.
func TestEngineWaits(t *testing.T) {
	for name, list := range map[string]string{
		"a rate":   "  - {name: api, limit: 1/s}\n",
		"a log":    "  - {name: api, limit: 1/s sliding-log}\n",
		"permits":  "  - {name: api, limit: 1 concurrent}\n",
		"several":  "  - {name: api, limit: 1/s}\n  - {name: busy, limit: 2 concurrent}\n",
		"a bucket": "  - {name: api, limit: 1/s leaky-bucket queue 2}\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, newEngine(t, list), &ServerConfig{MaxWait: 2500 * time.Millisecond})
				start := time.Now()
				passed := make(chan time.Duration, 5)
				for range 5 {
					go func() {
						if takes(t.Context(), s, time.Second) == nil {
							passed <- time.Since(start)
						} else {
							passed <- -1
						}
					}()
					time.Sleep(time.Millisecond)
				}
				n := 0
				for range 5 {
					took := <-passed
					if took < 0 {
						continue
					}
					n++
					if want := time.Duration(n) * time.Second; took < want || took > want+20*time.Millisecond {
						t.Errorf("number %d was through after %v, want %v", n, took, want)
					}
				}
				if n != 3 {
					t.Errorf("%d passed, want 3", n)
				}
			})
		})
	}
}

// One who leaves while its turn in a leaky bucket comes is not charged, under an engine, too, and leaves no permit behind.
func TestEngineGivesTurnsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "  - {name: api, limit: 1/s leaky-bucket queue 5}\n  - {name: busy, limit: 5 concurrent}\n")
		s := newServer(t, e, nil)
		wantCode(t, unary(t.Context(), s), codes.OK)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		wantCode(t, unary(ctx, s), codes.Canceled)
		if n := remaining(t, e, "busy"); n != 5 {
			t.Errorf("%d permits are left, want 5", n)
		}
		start := time.Now()
		wantCode(t, unary(t.Context(), s), codes.OK)
		if took := time.Since(start); took != 900*time.Millisecond {
			t.Errorf("the next waited for %v, want 900ms", took)
		}
	})
}

// The window of an engine's rule is told as that of a limiter is.
func TestEngineTellsTheWindow(t *testing.T) {
	s := newServer(t, newEngine(t, "  - {name: api, limit: 1/h}\n"), nil)
	wantCode(t, unary(t.Context(), s), codes.OK)
	r, ok := unary(t.Context(), s).(*refusal) //nolint:errorlint // it is what the interceptor returns
	if !ok || status.Code(r) != codes.ResourceExhausted {
		t.Fatalf("%v", r)
	}
	if got := r.trailer().Get("ratelimit-policy"); len(got) != 1 || got[0] != `"api";q=1;w=3600` {
		t.Errorf("ratelimit-policy %q", got)
	}
}
