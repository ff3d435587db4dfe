package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// left is how many requests to the host are left of a limiter.
func left(tb testing.TB, l *tidegate.Limiter, key string) int64 {
	tb.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// A request whose turn came while the other side asked for a pause that is too long for it was charged, though it was not
// sent. Its turn is given back, whether it has waited for one or not.
func TestTurnIsGivenBackWhenAPauseComesBetween(t *testing.T) {
	for name, c := range map[string]struct {
		limit string
		first int           // requests before the one that is not sent
		at    time.Duration // when the pause is asked for
	}{
		"of a bucket": {"2/min", 2, 10 * time.Second},
		"of a window": {"1/min fixed-window", 1, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // where a window begins
				l := limiter(t, c.limit)
				sent := 0
				tr := transport(t, httplimit.TransportConfig{
					Limiter: l, Key: func(*http.Request) string { return "them" }, MaxWait: 2 * time.Minute,
					Base: server(func(*http.Request) *http.Response {
						if sent++; sent == c.first { // answered when the next one waits for its turn
							time.Sleep(c.at)
							return answer(http.StatusServiceUnavailable, "Retry-After", "3600")
						}
						return answer(http.StatusOK)
					}),
				})
				for range c.first - 1 {
					if _, _, err := sendTo(t.Context(), tr, "http://them/"); err != nil {
						t.Fatal(err)
					}
				}
				go func() { _, _, _ = sendTo(t.Context(), tr, "http://them/") }()
				synctest.Wait()
				_, took, err := sendTo(t.Context(), tr, "http://them/")
				if err == nil || sent != c.first || took == 0 {
					t.Fatalf("sent %d, after %v: %v; want one that waited, and was not sent", sent, took, err)
				}
				// As if it had never been: what it waited for is there.
				if n := left(t, l, "them"); n != 1 {
					t.Errorf("%d left, want 1", n)
				}
			})
		})
	}
}

// The same where the client gives up while it waits for the pause.
func TestTurnIsGivenBackWhenItIsNotWaitedForTheSecondPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, "2/min")
		sent := 0
		tr := transport(t, httplimit.TransportConfig{
			Limiter: l, Key: func(*http.Request) string { return "them" }, MaxWait: 2 * time.Minute,
			Base: server(func(*http.Request) *http.Response {
				if sent++; sent == 2 {
					time.Sleep(10 * time.Second)
					return answer(http.StatusServiceUnavailable, "Retry-After", "60") // short enough to be waited for
				}
				return answer(http.StatusOK)
			}),
		})
		_, _, _ = sendTo(t.Context(), tr, "http://them/")
		go func() { _, _, _ = sendTo(t.Context(), tr, "http://them/") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 119*time.Second)
		defer cancel()
		time.AfterFunc(40*time.Second, cancel)
		if _, took, err := sendTo(ctx, tr, "http://them/"); err == nil || took != 40*time.Second {
			t.Fatalf("after %v: %v", took, err)
		}
		if n := left(t, l, "them"); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

// A client that left while its request waited for its turn in a leaky bucket stayed charged, and all behind it waited for one that
// never came.
func TestTurnOfALeakyBucketIsGivenBack(t *testing.T) {
	queue := httplimit.Queue{Length: 9, Wait: time.Minute}
	for name, c := range map[string]struct {
		decider func(t *testing.T) tidegate.Decider
		cfg     httplimit.Config
	}{
		"limiter":           {func(t *testing.T) tidegate.Decider { t.Helper(); return limiter(t, "1/s leaky-bucket queue 5") }, httplimit.Config{}},
		"limiter and queue": {func(t *testing.T) tidegate.Decider { t.Helper(); return limiter(t, "1/s leaky-bucket queue 5") }, httplimit.Config{Queue: queue}},
		"engine": {func(t *testing.T) tidegate.Decider {
			t.Helper()
			return engine(t, "  - {name: api, limit: 1/s leaky-bucket queue 5}\n")
		}, httplimit.Config{}},
		"engine and queue": {func(t *testing.T) tidegate.Decider {
			t.Helper()
			return engine(t, "  - {name: api, limit: 1/s leaky-bucket queue 5}\n")
		}, httplimit.Config{Queue: queue}},
		"engine and permits": {func(t *testing.T) tidegate.Decider {
			t.Helper()
			return engine(t, "  - {name: api, limit: 1/s leaky-bucket queue 5}\n  - {name: busy, limit: 9 concurrent}\n")
		}, httplimit.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := middleware(t, c.decider(t), &c.cfg).Wrap(http.HandlerFunc(ok))
				get(h)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if w := getWith(ctx, h); w.Code != http.StatusServiceUnavailable {
					t.Errorf("one who left: %d", w.Code)
				}
				start := time.Now()
				if w := get(h); w.Code != http.StatusOK || time.Since(start) != 900*time.Millisecond {
					t.Errorf("the next: %d after %v, want 200 after 900ms, as if nobody had been before", w.Code, time.Since(start))
				}
			})
		})
	}
}
