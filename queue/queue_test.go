package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

func within(tb testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithTimeout(tb.Context(), d)
}

func TestConfig(t *testing.T) {
	run := func(context.Context, int) {}
	if _, err := New[int](nil, run, nil); err == nil {
		t.Error("a nil limiter is accepted")
	}
	if _, err := New[int](limiter(t, "1/s"), nil, nil); err == nil {
		t.Error("a nil function is accepted")
	}
	_, err := New(limiter(t, "1/s"), run, &Config[int]{Size: -1, Workers: -2, MaxAge: -3, Full: 7})
	for _, want := range []string{"size of -1", "-2 workers", "MaxAge -3ns", "Policy(7)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for _, c := range []Config[int]{{Full: DropOldest}, {MaxAge: time.Second}} {
		if _, err := New(limiter(t, "1/s"), run, &c); err == nil || !strings.Contains(err.Error(), "set Dropped") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Jobs that come at once run in their order, evenly spaced.
func TestConstantRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var ran []string
		q, err := New(limiter(t, "10/s leaky-bucket queue 100"), func(_ context.Context, job int) {
			ran = append(ran, fmt.Sprint(job, " at ", time.Since(start)))
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for n := range 50 {
			if err := q.Put(t.Context(), n); err != nil {
				t.Error(err)
			}
			want = append(want, fmt.Sprint(n, " at ", time.Duration(n)*100*time.Millisecond))
		}
		shutdown(t, q)
		if !slices.Equal(ran, want) {
			t.Errorf("%q", ran)
		}
	})
}

// Turns are not saved up while nothing waits, nor while all workers are busy.
func TestTurnsAreNotSavedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		q, err := New(limiter(t, "10/s leaky-bucket queue 100"), func(_ context.Context, long time.Duration) {
			starts = append(starts, time.Now())
			time.Sleep(long)
		}, &Config[time.Duration]{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, long := range []time.Duration{10 * time.Second, 0, 0, 0} {
			_ = q.Put(t.Context(), long)
		}
		time.Sleep(time.Minute)
		for range 3 {
			_ = q.Put(t.Context(), 0)
		}
		shutdown(t, q)
		for i := range starts[1:] {
			if gap := starts[i+1].Sub(starts[i]); gap < 100*time.Millisecond {
				t.Errorf("jobs %d and %d are %v apart", i, i+1, gap)
			}
		}
	})
}

// Ten thousand at once: a hundred wait, the rest are answered at once, and those that wait all run.
func TestTenThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		q, err := New(limiter(t, "100/s leaky-bucket queue 10"), func(context.Context, int) {
			ran.Add(1)
			time.Sleep(time.Second)
		}, &Config[int]{Size: 100, Workers: 5})
		if err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		var accepted, refused atomic.Int64
		start := time.Now()
		for n := range 10_000 {
			clients.Go(func() {
				switch err := q.Put(t.Context(), n); {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, ErrFull):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		clients.Wait()
		if took := time.Since(start); took > 0 {
			t.Errorf("the last was answered after %v", took)
		}
		// One may have begun at once; the others wait, whatever they are.
		if a := accepted.Load(); a < 100 || a > 105 || a+refused.Load() != 10_000 {
			t.Errorf("%d accepted, %d refused", a, refused.Load())
		}
		if s := q.Stats(); s.Waiting > 100 || s.Running > 5 {
			t.Errorf("%+v", s)
		}
		shutdown(t, q)
		if ran.Load() != accepted.Load() {
			t.Errorf("%d ran of %d", ran.Load(), accepted.Load())
		}
	})
}

func TestDropOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran, dropped []int
		q, err := New(limiter(t, "1/s leaky-bucket queue 10"), func(_ context.Context, n int) { ran = append(ran, n) }, &Config[int]{
			Size: 3, Full: DropOldest,
			Dropped: func(n int, why error) {
				if !errors.Is(why, ErrDropped) {
					t.Error(why)
				}
				dropped = append(dropped, n)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			if err := q.Put(t.Context(), n); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		shutdown(t, q)
		if !slices.Equal(ran, []int{0, 7, 8, 9}) || !slices.Equal(dropped, []int{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%v ran, %v dropped", ran, dropped)
		}
	})
}

// A job whose context ends leaves its place to another at once; the one that runs is told.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []string
		q, err := New(limiter(t, "1/s leaky-bucket queue 10"), func(ctx context.Context, n int) {
			<-ctx.Done()
			why = append(why, fmt.Sprint(n, " ran until ", ctx.Err()))
		}, &Config[int]{Size: 1, Workers: 1, Dropped: func(n int, err error) { why = append(why, fmt.Sprint(n, " dropped: ", err)) }})
		if err != nil {
			t.Fatal(err)
		}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := within(t, time.Second)
		third, endThird := context.WithCancel(t.Context())
		defer endSecond()
		put := func(ctx context.Context, n int, want error) {
			t.Helper()
			if err := q.Put(ctx, n); !errors.Is(err, want) {
				t.Errorf("job %d: %v, want %v", n, err, want)
			}
			synctest.Wait()
		}
		put(first, 1, nil)
		put(second, 2, nil)
		put(third, 3, ErrFull)
		time.Sleep(time.Second + 1)
		synctest.Wait()
		put(second, 2, context.DeadlineExceeded)
		put(third, 3, nil)
		endFirst()
		time.Sleep(5 * time.Second)
		endThird()
		shutdown(t, q)
		want := []string{"2 dropped: context deadline exceeded", "1 ran until context canceled", "3 ran until context canceled"}
		if !slices.Equal(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	})
}

// Jobs that have waited too long are dropped when their turn comes, or when another needs the place.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran, dropped []int
		q, err := New(limiter(t, "1/min leaky-bucket queue 100"), func(_ context.Context, n int) { ran = append(ran, n) }, &Config[int]{
			Size: 3, MaxAge: 90 * time.Second,
			Dropped: func(n int, why error) {
				if !errors.Is(why, ErrTooOld) {
					t.Error(why)
				}
				dropped = append(dropped, n)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			_ = q.Put(t.Context(), n)
			synctest.Wait()
		}
		time.Sleep(100 * time.Second) // the third and the fourth are too old, and 80 s would be to wait for their turn
		for n := 4; n < 7; n++ {
			if err := q.Put(t.Context(), n); err != nil {
				t.Error(n, err)
			}
		}
		if !slices.Equal(dropped, []int{2, 3}) {
			t.Errorf("%v dropped", dropped)
		}
		shutdown(t, q)
		if !slices.Equal(ran, []int{0, 1, 4, 5}) || !slices.Equal(dropped, []int{2, 3, 6}) {
			t.Errorf("%v ran, %v dropped", ran, dropped)
		}
	})
}

// A shutdown that has to end before all have run returns what has not begun, and tells what runs.
func TestShutdownReturnsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		q, err := New(limiter(t, "10/s leaky-bucket queue 100"), func(ctx context.Context, _ int) {
			<-ctx.Done()
			time.Sleep(time.Second) // and ends in its own time
			ended.Add(1)
		}, &Config[int]{Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			_ = q.Put(context.WithoutCancel(t.Context()), n)
		}
		ctx, cancel := within(t, 10*time.Second)
		defer cancel()
		left, err := q.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "16 jobs had not begun and 4 had not ended") {
			t.Error(err)
		}
		if want := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}; !slices.Equal(left, want) {
			t.Errorf("%v are left, want %v", left, want)
		}
		if err := q.Put(t.Context(), 99); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		check(t, q)
		shutdown(t, q) // waits for what runs
		if ended.Load() != 4 {
			t.Errorf("%d ended", ended.Load())
		}
		if s := q.Stats(); s != (Stats{Accepted: 20, Refused: 1, Done: 4, Left: 16}) {
			t.Errorf("%+v", s)
		}
	})
}

// While many put, some leave and the queue is shut down, each job that was accepted is heard of once.
func TestNoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := map[int]int{}
		hear := func(n int) {
			mu.Lock()
			heard[n]++
			mu.Unlock()
		}
		q, err := New(limiter(t, "1000/s leaky-bucket queue 50"), func(_ context.Context, n int) {
			time.Sleep(time.Duration(n%7) * time.Millisecond)
			hear(n)
		}, &Config[int]{Size: 20, Workers: 3, Full: DropOldest, MaxAge: 25 * time.Millisecond, Dropped: func(n int, _ error) { hear(n) }})
		if err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		var accepted atomic.Int64
		for g := range 50 {
			clients.Go(func() {
				for i := range 100 {
					n := g*100 + i
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+n%40)*time.Millisecond)
					defer cancel()
					if q.Put(ctx, n) == nil {
						accepted.Add(1)
					}
					time.Sleep(time.Duration(n%5) * time.Millisecond)
				}
				time.Sleep(time.Second)
			})
		}
		time.Sleep(150 * time.Millisecond)
		ctx, cancel := within(t, 5*time.Millisecond)
		defer cancel()
		left, _ := q.Shutdown(ctx)
		for _, n := range left {
			hear(n)
		}
		clients.Wait()
		shutdown(t, q)
		if int64(len(heard)) != accepted.Load() {
			t.Errorf("%d were accepted, and %d heard of", accepted.Load(), len(heard))
		}
		for n, times := range heard {
			if times != 1 {
				t.Errorf("job %d was heard of %d times", n, times)
			}
		}
		t.Logf("%+v", q.Stats())
	})
}

// flaky fails for a while, then lets all pass.
type flaky struct {
	errs []error
	at   []time.Duration
	from time.Time
}

func (f *flaky) WaitN(context.Context, string, int64) error {
	f.at = append(f.at, time.Since(f.from))
	if len(f.errs) == 0 {
		return nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

// Jobs wait while the limiter cannot say, and it is asked less and less often.
func TestLimiterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &tidegate.StoreError{Op: "take", Err: errors.New("connection refused")}
		late := &tidegate.DeadlineError{Need: 90 * time.Second, Have: time.Minute}
		l := &flaky{errs: []error{down, down, late, down, tidegate.ErrNever, down, down, down, down}, from: time.Now()}
		failed, ran := 0, 0
		q, err := New(l, func(context.Context, int) { ran++ }, &Config[int]{Failed: func(error) { failed++ }})
		if err != nil {
			t.Fatal(err)
		}
		_ = q.Put(t.Context(), 1)
		shutdown(t, q)
		want := "[0s 100ms 300ms 30.3s 30.7s 31.5s 33.1s 36.3s 41.3s 46.3s]"
		if fmt.Sprint(l.at) != want || failed != 8 || ran != 1 {
			t.Errorf("asked at %v, want %s; %d failures, %d ran", l.at, want, failed, ran)
		}
	})
}

// A shutdown does not wait for a turn that nobody is left to take, nor does it spend it.
func TestShutdownWhenTheLastJobLeaves(t *testing.T) {
	for name, first := range map[string]bool{"before": true, "during": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := 0
				l := limiter(t, "1/h leaky-bucket queue 10")
				q, err := New(l, func(context.Context, int) { ran++ }, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				_ = q.Put(t.Context(), 1)
				synctest.Wait()
				_ = q.Put(ctx, 2)
				synctest.Wait()
				start := time.Now()
				if first {
					leave()
					synctest.Wait()
				} else {
					time.AfterFunc(time.Second, leave)
				}
				shutdown(t, q)
				if took := time.Since(start); took > time.Second || ran != 1 {
					t.Errorf("%v, %d ran", took, ran)
				}
				if d, err := l.Peek(t.Context(), ""); err != nil || d.ResetAfter > time.Hour {
					t.Errorf("the turn was spent: %+v, %v", d, err)
				}
			})
		})
	}
}

// A shutdown does not wait for a limiter that cannot say.
func TestShutdownWhileTheLimiterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(limiter(t, "none"), func(context.Context, int) { t.Error("a job ran") }, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = q.Put(t.Context(), 1)
		ctx, cancel := within(t, time.Minute)
		defer cancel()
		if left, err := q.Shutdown(ctx); !slices.Equal(left, []int{1}) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(left, err)
		}
	})
}
