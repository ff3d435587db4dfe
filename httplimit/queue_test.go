package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// crowd sends n requests at once and returns, by status, when each was answered.
func crowd(n int, h http.Handler) map[int][]time.Duration {
	start := time.Now()
	answers := make(map[int][]time.Duration)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			status := get(h).Code
			mu.Lock()
			defer mu.Unlock()
			answers[status] = append(answers[status], time.Since(start))
		})
	}
	group.Wait()
	return answers
}

// 10,000 clients for 10 places, and a queue of 100: 10 are served, 100 wait, the others are answered at once. Those that
// wait are served or time out; nothing is left behind.
func TestQueueOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most atomic.Int64
		m := middleware(t, limiter(t, "10 concurrent"), &httplimit.Config{Queue: httplimit.Queue{Length: 100, Wait: 5*time.Second + time.Millisecond}})
		h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			n := busy.Add(1)
			defer busy.Add(-1)
			for {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			time.Sleep(time.Second)
		}))
		var waited atomic.Int64
		time.AfterFunc(time.Millisecond, func() { waited.Store(int64(m.Waiting())) })
		answers := crowd(10_000, h)

		served, refused := answers[http.StatusOK], answers[http.StatusTooManyRequests]
		if waited.Load() != 100 {
			t.Errorf("%d wait, want 100", waited.Load())
		}
		if len(served) != 10+50 || len(served)+len(refused) != 10_000 {
			t.Errorf("%d served, %d refused; want 60 served in 6 s, 10 at a time", len(served), len(refused))
		}
		atOnce := 0
		for _, d := range refused {
			switch {
			case d == 0:
				atOnce++
			case d != 5*time.Second+time.Millisecond:
				t.Errorf("one was refused after %v: neither at once nor when its time was up", d)
			}
		}
		if atOnce != 10_000-110 {
			t.Errorf("%d were refused at once, want 9890", atOnce)
		}
		if most.Load() != 10 || busy.Load() != 0 || m.Waiting() != 0 {
			t.Errorf("at most %d were served at once, %d still are, %d wait", most.Load(), busy.Load(), m.Waiting())
		}
	})
}

// The same for a rate: each of those that wait is told its time by the store, and sleeps once.
func TestQueueOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "10/s"), &httplimit.Config{Queue: httplimit.Queue{Length: 100, Wait: 10 * time.Second}})
		var waited atomic.Int64
		time.AfterFunc(time.Millisecond, func() { waited.Store(int64(m.Waiting())) })
		answers := crowd(10_000, m.Wrap(http.HandlerFunc(ok)))
		if waited.Load() != 100 {
			t.Errorf("%d wait, want 100", waited.Load())
		}
		served := answers[http.StatusOK]
		if len(served) != 110 {
			t.Fatalf("%d served, want 10 at once and 100 in turn", len(served))
		}
		for i, d := range served {
			if want := time.Duration(max(0, i-9)) * 100 * time.Millisecond; d != want {
				t.Errorf("number %d was served after %v, want %v", i, d, want)
			}
		}
		for _, d := range answers[http.StatusTooManyRequests] {
			if d != 0 {
				t.Errorf("one was refused after %v, not at once", d)
			}
		}
	})
}

// The line of a key is forgotten when nobody stands in it.
func TestQueueForgetsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "1 concurrent"), &httplimit.Config{Queue: httplimit.Queue{Length: 1000, Wait: time.Minute}})
		h := m.Wrap(takes(time.Second))
		var group sync.WaitGroup
		for i := range 300 {
			group.Go(func() {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", i%100)
				h.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		time.Sleep(time.Millisecond)
		if n := m.Lines(); n != 100 {
			t.Errorf("%d lines, want one for each of 100 keys", n)
		}
		group.Wait()
		if n := m.Lines(); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// Who gives up gives back, and those behind move up.
func TestQueueGivesBackWhatIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "1/s"), &httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: 2 * time.Second}})
		h := m.Wrap(http.HandlerFunc(ok))
		get(h)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if w := getWith(ctx, h); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one who gave up: %d", w.Code)
		}
		start := time.Now()
		if w := get(h); w.Code != http.StatusOK || time.Since(start) != 900*time.Millisecond {
			t.Errorf("the next: %d after %v, want 200 after 900ms, as if nobody had been before", w.Code, time.Since(start))
		}
	})
}

// Closing the queue answers who waits, gives back what was theirs, and lets nobody wait any more.
func TestCloseAnswersWhoWaits(t *testing.T) {
	for _, limit := range []string{"1/s", "1 concurrent"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := middleware(t, limiter(t, limit), &httplimit.Config{Queue: httplimit.Queue{Length: 10, Wait: time.Minute}})
				h := m.Wrap(takes(10 * time.Second))
				time.AfterFunc(100*time.Millisecond, func() { _ = m.Close() })
				answers := crowd(11, h)
				if n := len(answers[http.StatusOK]); n != 1 {
					t.Errorf("%d were served", n)
				}
				if n := len(answers[http.StatusServiceUnavailable]); n != 10 {
					t.Errorf("%d were told that they wait in vain", n)
				}
				for _, d := range answers[http.StatusServiceUnavailable] {
					if d != 100*time.Millisecond {
						t.Errorf("one was told after %v", d)
					}
				}
				go get(h)
				synctest.Wait()
				start := time.Now()
				if w := get(h); w.Code != http.StatusTooManyRequests || time.Since(start) != 0 {
					t.Errorf("after the end: %d after %v", w.Code, time.Since(start))
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// Places that are given back elsewhere, or expire, are found.
func TestQueueFindsPlacesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, "1 concurrent ttl 3s")
		permit, err := l.Acquire(t.Context(), "192.0.2.1") // what httptest says the client is
		if err != nil || !permit.OK() {
			t.Fatal(permit, err)
		}
		m := middleware(t, l, &httplimit.Config{Queue: httplimit.Queue{Length: 10, Wait: time.Minute}})
		start := time.Now()
		if w := get(m.Wrap(http.HandlerFunc(ok))); w.Code != http.StatusOK || time.Since(start) > 3250*time.Millisecond {
			t.Errorf("%d after %v", w.Code, time.Since(start))
		}
	})
}

// A newcomer who finds no place to wait does not overtake those who wait.
func TestNobodyOvertakesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "1 concurrent"), &httplimit.Config{Queue: httplimit.Queue{Length: 3, Wait: time.Minute}})
		var mu sync.Mutex
		var order []string
		h := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			order = append(order, r.Header.Get("Name"))
			mu.Unlock()
			time.Sleep(time.Second)
		}))
		var group sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			group.Go(func() { _ = named(h, name) })
			synctest.Wait()
		}
		for range 100 { // also at the very moment when a place is free
			time.Sleep(25 * time.Millisecond)
			if status := named(h, "late"); status != http.StatusTooManyRequests && m.Waiting() == 3 {
				t.Fatalf("one who came late was answered %d", status)
			}
			if m.Waiting() < 3 {
				break
			}
		}
		group.Wait()
		for i, want := range []string{"a", "b", "c"} { // those who waited while others were turned away
			if order[i] != want {
				t.Errorf("served in the order %v", order)
				break
			}
		}
	})
}

// A leaky bucket's queue is its own; the middleware waits as it says.
func TestLeakyBucketWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middleware(t, limiter(t, "10/s leaky-bucket queue 5"), nil).Wrap(http.HandlerFunc(ok))
		answers := crowd(10, h)
		served := answers[http.StatusOK]
		if len(served) != 6 || len(answers[http.StatusTooManyRequests]) != 4 {
			t.Fatalf("%v", answers)
		}
		for i, d := range served {
			if d != time.Duration(i)*100*time.Millisecond {
				t.Errorf("number %d was served after %v", i, d)
			}
		}
	})
}

// A leaky bucket's queue is cut by a shorter one of the middleware.
func TestQueueBoundsALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, limiter(t, "10/s leaky-bucket queue 50"), &httplimit.Config{Queue: httplimit.Queue{Length: 100, Wait: 300 * time.Millisecond}})
		answers := crowd(10, m.Wrap(http.HandlerFunc(ok)))
		if len(answers[http.StatusOK]) != 4 || len(answers[http.StatusTooManyRequests]) != 6 {
			t.Errorf("%v", answers)
		}
		for _, d := range answers[http.StatusTooManyRequests] {
			if d != 0 {
				t.Errorf("one was refused after %v", d)
			}
		}
	})
}
