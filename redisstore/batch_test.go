package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// atRest fails the test if the store still holds on to a take: a bucket in flight, a waiter, a sender.
func atRest(t *testing.T, s *Store) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		d := &s.batches.all
		d.mu.Lock()
		state := fmt.Sprintf("buckets %d ready %d eager %d queued %d in flight %d flying %d senders %d forming %d",
			len(d.buckets.named), len(d.ready), d.eager, d.queued, d.inFlight, d.flying, d.senders, d.forming)
		d.mu.Unlock()
		if state == "buckets 0 ready 0 eager 0 queued 0 in flight 0 flying 0 senders 0 forming 0" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not at rest: %s", state)
		}
		runtime.Gosched()
	}
}

// What is admitted is what was charged, whatever kinds of takes share buckets and batches, and batches are made.
func TestBatchesChargeWhatTheyAllow(t *testing.T) {
	srv := redistest.Start(t)
	var sent countingHook
	s := openStore(t, srv.URL(), &Config{Hooks: []redis.Hook{&sent}, Timeout: 20 * time.Second})
	bucket, window := parseLimit(t, "1000/365day burst 40000"), parseLimit(t, "40000/365day fixed-window")
	const callers, each = 64, 300
	var fromBuckets, fromWindow [4]atomic.Int64
	var takes atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for range each {
				k := r.IntN(4)
				b := tidegate.Charge{Rule: "b", Key: fmt.Sprint(k), Limit: bucket, Cost: 1}
				w := tidegate.Charge{Rule: "w", Key: fmt.Sprint(k), Limit: window, Cost: 1}
				charges := []tidegate.Charge{b}
				switch r.IntN(12) {
				case 0:
					charges[0].Cost = 2 + r.Int64N(3)
				case 1:
					charges = []tidegate.Charge{w}
				case 2:
					charges = []tidegate.Charge{b, w}
				case 3:
					charges[0].Cost = 50_000 // never passes
				}
				takes.Add(1)
				ds, err := s.Take(context.Background(), charges, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if !tidegate.Combine(charges, ds).Allowed {
					continue
				}
				for i := range charges {
					if charges[i].Rule == "b" {
						fromBuckets[k].Add(charges[i].Cost)
					} else {
						fromWindow[k].Add(charges[i].Cost)
					}
				}
			}
		})
	}
	wg.Wait()
	batched := sent.n.Load()
	for k := range 4 {
		charges := []tidegate.Charge{
			{Rule: "b", Key: fmt.Sprint(k), Limit: bucket},
			{Rule: "w", Key: fmt.Sprint(k), Limit: window},
		}
		ds, err := s.Take(context.Background(), charges, nil)
		if err != nil {
			t.Fatal(err)
		}
		// 1000 a year is one token in nine hours: nothing comes back during the test.
		if used, want := ds[0].Limit-ds[0].Remaining, fromBuckets[k].Load(); used != want {
			t.Errorf("bucket %d: %d in use, %d were allowed", k, used, want)
		}
		if used, want := ds[1].Limit-ds[1].Remaining, fromWindow[k].Load(); used != want {
			t.Errorf("window %d: %d in use, %d were allowed", k, used, want)
		}
	}
	if batched*2 > takes.Load() {
		t.Errorf("%d commands for %d takes of %d callers on four keys: they were not batched", batched, takes.Load(), callers)
	}
	atRest(t, s)
}

// Exactly the burst passes, however many ask at once.
func TestBatchesKeepToTheLimit(t *testing.T) {
	srv := redistest.Start(t)
	for _, text := range []string{"1/day burst 100", "100/365day fixed-window", "100/365day sliding-window", "100/365day sliding-log"} {
		t.Run(text, func(t *testing.T) {
			s := openStore(t, srv.URL(), &Config{Timeout: 20 * time.Second})
			l, err := tidegate.New(s, *parseLimit(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			var allowed atomic.Int64
			var left sync.Map
			var wg sync.WaitGroup
			for range 500 {
				wg.Go(func() {
					d, err := l.Allow(context.Background(), "k")
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						allowed.Add(1)
						if _, twice := left.LoadOrStore(d.Remaining, true); twice {
							t.Errorf("two takes were told that %d remain", d.Remaining)
						}
					}
				})
			}
			wg.Wait()
			if allowed.Load() != 100 {
				t.Errorf("%d passed of 500, want 100", allowed.Load())
			}
			atRest(t, s)
		})
	}
}

// A take that cannot be decided fails alone.
func TestBadEntryFailsAlone(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{Timeout: 20 * time.Second})
	l, err := tidegate.New(s, *parseLimit(t, "1000/day burst 100000"), &tidegate.Config{Rule: "r"})
	if err != nil {
		t.Fatal(err)
	}
	bad := s.bucketKey(&tidegate.Charge{Rule: "r", Key: "bad"}, s.tag(&tidegate.Charge{Rule: "r", Key: "bad"}), 0)
	if _, err := srv.Do("SADD", bad, "x"); err != nil {
		t.Fatal(err)
	}
	var good, failed atomic.Int64
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			for range 50 {
				k := "good"
				if c%8 == 0 {
					k = "bad"
				}
				_, err := l.Allow(context.Background(), k)
				switch {
				case k == "good" && err != nil:
					t.Errorf("good: %v", err)
				case k == "bad" && !errors.Is(err, tidegate.ErrStore):
					t.Errorf("bad: %v", err)
				case err != nil:
					failed.Add(1)
				default:
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() != 56*50 || failed.Load() != 8*50 {
		t.Errorf("%d passed and %d failed", good.Load(), failed.Load())
	}
	atRest(t, s)
}

// A server that is killed in the middle leaves nobody waiting beyond the deadline, and nothing behind.
func TestKilledInTheMiddle(t *testing.T) {
	srv := redistest.StartTCP(t)
	s := openStore(t, srv.URL(), &Config{Timeout: 2 * time.Second})
	l, err := tidegate.New(s, *parseLimit(t, "1000000/s burst 1000000"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var answered, longest atomic.Int64
	var wg sync.WaitGroup
	for c := range 256 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				start := time.Now()
				_, err := l.Allow(context.Background(), fmt.Sprint(c%16))
				if n := int64(time.Since(start)); n > longest.Load() {
					longest.Store(n)
				}
				if err != nil {
					if !errors.Is(err, tidegate.ErrStore) {
						t.Errorf("%v is not a store failure", err)
					}
					return
				}
				answered.Add(1)
			}
		})
	}
	for answered.Load() < 2000 {
		runtime.Gosched()
	}
	srv.Kill()
	wg.Wait()
	close(stop)
	if d := time.Duration(longest.Load()); d > 5*time.Second && !raceDetector {
		t.Errorf("a caller waited %v", d)
	}
	atRest(t, s)
}

// A caller who leaves is let go at once, whatever its batch does, and disturbs nobody.
func TestLeavingCallers(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{Timeout: 20 * time.Second})
	l, err := tidegate.New(s, *parseLimit(t, "1000/day burst 100000"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(context.Background(), "k"); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	var wg sync.WaitGroup
	stay := make(chan error, 32)
	for range 32 {
		go func() {
			_, err := l.Allow(context.Background(), "k")
			stay <- err
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	for range 32 {
		wg.Go(func() {
			if _, err := l.Allow(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a caller whose deadline passed was told %v", err)
			}
		})
	}
	wg.Wait()
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("callers with a deadline of 50ms waited %v", d)
	}
	srv.Resume()
	for range 32 {
		if err := <-stay; err != nil {
			t.Errorf("a caller who stayed: %v", err)
		}
	}
	atRest(t, s)
}

// Callers whose takes are alike share an entry of the next batch, also those who leave before it does; each is told what it
// would have been told alone, and one that differs stays apart.
func TestAlikeCallersShareAnEntry(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), &Config{Timeout: 20 * time.Second})
	limit := parseLimit(t, "1000/365day burst 1000")
	d := &s.batches.all
	d.mu.Lock()
	d.senders++ // so that nobody leaves alone
	d.inFlight++
	d.forming++ // and nobody sends before all are there
	d.mu.Unlock()
	queued := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
			d.mu.Lock()
			now := d.queued
			d.mu.Unlock()
			if now == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d callers are queued, not %d", now, n)
			}
		}
	}
	const callers, unlike = 90, 46
	ctx, leave := context.WithCancel(context.Background())
	var told sync.Map
	var wg, leaving sync.WaitGroup
	for i := range callers {
		ctx, group := ctx, &leaving
		if i%3 != 0 {
			ctx, group = context.Background(), &wg
		}
		c := tidegate.Charge{Rule: "r", Key: "k", Limit: limit, Cost: 1}
		if i == unlike {
			c.Cost = 5
		}
		group.Go(func() {
			ds, err := s.Take(ctx, []tidegate.Charge{c}, nil)
			switch {
			case i%3 == 0:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("caller %d left and was told %v, %v", i, ds, err)
				}
			case err != nil || !ds[0].Allowed:
				t.Errorf("caller %d: %v, %v", i, ds, err)
			default:
				told.Store(i, ds[0].Remaining)
			}
		})
		queued(i + 1)
	}
	leave()
	leaving.Wait()
	d.mu.Lock()
	entries := len(d.ready)
	d.mu.Unlock()
	if entries != 3 {
		t.Errorf("%d entries of %d takes of which one is unlike the others, not 3", entries, callers)
	}
	go d.send(new(sender))
	wg.Wait()
	want := int64(1000)
	for i := range callers {
		if i%3 == 0 {
			continue
		}
		want--
		if i == unlike {
			want -= 4
		}
		if got, _ := told.Load(i); got != want {
			t.Errorf("caller %d was told that %v remain, not %d", i, got, want)
		}
	}
	atRest(t, s)
}

// A batch holds no more takes than it may, though entries stand for many each, and callers of one key weigh as many as they
// are, so that they do not wait for a batch of many other keys.
func TestAlikeCallersAreCounted(t *testing.T) {
	s := openStore(t, redistest.Start(t).URL(), &Config{Timeout: 20 * time.Second})
	limit := parseLimit(t, "1000000/365day burst 1000000")
	d := &dispatcher{store: s, batch: 1, forming: 1}
	enter := func(n int, cost int64) {
		for range n {
			items := make([]item, 1)
			if err := s.fill(items, []tidegate.Charge{{Rule: "r", Key: "k", Limit: limit, Cost: cost}}); err != nil {
				t.Fatal(err)
			}
			one, _ := simpleOf(items)
			if w, _, _ := d.join(&one); w == nil {
				w = s.batches.newWaiter(items)
				d.buckets.hold(w)
				w.since = s.elapsed()
				d.ready = append(d.ready, w)
				d.eager++
				d.queued++
				d.lately.Store(items[0].tag + 1)
			}
		}
	}
	enter(maxTakes-1, 1)
	enter(maxTakes, 2)
	enter(5, 3)
	if batch, _ := d.form(nil, nil); len(batch) != 1 || batch[0].times != maxTakes-1 {
		t.Fatalf("the first batch has %d entries", len(batch))
	}
	if batch, _ := d.form(nil, nil); len(batch) != 0 || d.eager != 0 || d.queued != maxTakes+5 {
		t.Errorf("%d entries of a bucket that is in flight, %d eager, %d queued", len(batch), d.eager, d.queued)
	}

	// As if a batch of so many other takes was in flight, and did not come back.
	const flying = 96
	d = &s.batches.all
	d.mu.Lock()
	d.flying, d.inFlight = flying, 1
	d.senders++
	d.mu.Unlock()
	var wg sync.WaitGroup
	for range flying / worthwhile {
		wg.Go(func() {
			if _, err := s.Take(context.Background(), []tidegate.Charge{{Rule: "r", Key: "hot", Limit: limit, Cost: 1}}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d.mu.Lock()
	d.flying, d.inFlight = d.flying-flying, d.inFlight-1
	d.senders--
	d.mu.Unlock()
	atRest(t, s)
}
