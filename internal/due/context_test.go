package due

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const timeout = 50 * time.Millisecond

type keyType struct{}

var errLeft = errors.New("the caller left")

// ways are how a call ends: each is given what ends its parent, and what releases it.
var ways = []struct {
	name  string
	early bool // before its deadline
	end   func(leave context.CancelCauseFunc, release func())
}{
	{"it takes too long", false, func(context.CancelCauseFunc, func()) { time.Sleep(timeout) }},
	{"it takes too long, and then returns", false, func(_ context.CancelCauseFunc, release func()) { time.Sleep(timeout + 1); release() }},
	{"its caller leaves", true, func(leave context.CancelCauseFunc, _ func()) { leave(errLeft) }},
	{"it returns", true, func(_ context.CancelCauseFunc, release func()) { release() }},
	{"it returns, and then its caller leaves", true, func(leave context.CancelCauseFunc, release func()) { release(); leave(errLeft) }},
	{"its caller leaves, and then it returns", true, func(leave context.CancelCauseFunc, release func()) { leave(errLeft); release() }},
}

// asked are what was asked of a context before it ended.
var asked = []struct {
	name string
	ask  func(context.Context)
}{
	{"nothing", func(context.Context) {}},
	{"Err", func(ctx context.Context) { _ = ctx.Err() }},
	{"Value", func(ctx context.Context) { _ = ctx.Value(keyType{}) }},
	{"Done", func(ctx context.Context) { _ = ctx.Done() }},
	{"Ends", func(ctx context.Context) { _, _ = Ends(ctx) }},
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// However a call ends, and whatever was asked before, its context says what one of the standard library says.
func TestLikeTheStandardOne(t *testing.T) {
	for _, way := range ways {
		for _, before := range asked {
			t.Run(way.name+"/"+before.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, leave := context.WithCancelCause(context.WithValue(t.Context(), keyType{}, 42))
					defer leave(nil)
					ours := NewGroup(timeout).Bound(parent)
					defer ours.Release()
					deadline, ok := ours.Deadline()
					theirs, cancel := context.WithDeadline(parent, deadline)
					defer cancel()
					if !ok || time.Until(deadline) != timeout {
						t.Errorf("the deadline is in %v", time.Until(deadline))
					}
					before.ask(ours)
					if ours.Err() != nil || context.Cause(ours) != nil {
						t.Errorf("it has ended at once: %v", ours.Err())
					}
					way.end(leave, func() { ours.Release(); cancel() })
					synctest.Wait()
					if a, b := ours.Err(), theirs.Err(); a == nil || !errors.Is(a, b) {
						t.Errorf("it says %v, not %v", a, b)
					}
					if a, b := context.Cause(ours), context.Cause(theirs); a == nil || !errors.Is(a, b) {
						t.Errorf("the cause is %v, not %v", a, b)
					}
					if !over(ours.Done()) || ours.Value(keyType{}) != 42 {
						t.Errorf("done is %v, its value %v", over(ours.Done()), ours.Value(keyType{}))
					}
					said, cause := ours.Err(), context.Cause(ours)
					ours.Release()
					leave(errors.New("later"))
					time.Sleep(timeout)
					if ours.Err() != said || context.Cause(ours) != cause { //nolint:errorlint // the very same
						t.Errorf("it changed its mind, from %v to %v", said, ours.Err())
					}
				})
			})
		}
	}
}

// What is derived from a context ends with it, at the same moment, and no goroutine of its own waits for that.
func TestDerived(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, leave := context.WithCancelCause(t.Context())
				defer leave(nil)
				ours := NewGroup(timeout).Bound(parent)
				start := time.Now()
				child, cancel := context.WithTimeout(ours, time.Hour)
				defer cancel()
				if d, _ := child.Deadline(); d.Sub(start) != timeout {
					t.Errorf("the deadline of a child is in %v", d.Sub(start))
				}
				after := make(chan time.Duration, 1)
				stop := context.AfterFunc(child, func() { after <- time.Since(start) })
				defer stop()
				way.end(leave, ours.Release)
				<-child.Done()
				want := timeout
				if way.early {
					want = 0
				}
				if got := <-after; got != want || child.Err() == nil || !errors.Is(child.Err(), ours.Err()) {
					t.Errorf("after %v: %v, %v", got, child.Err(), ours.Err())
				}
				if !errors.Is(context.Cause(child), context.Cause(ours)) {
					t.Errorf("the cause is %v, not %v", context.Cause(child), context.Cause(ours))
				}
			})
		})
	}
}

// Who waits by Ends is told at the moment at which Done would be closed, and Err then says why.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(timeout)
		parent, leave := context.WithCancel(t.Context())
		waits := func(ctx context.Context) (took time.Duration, err error) {
			start := time.Now()
			gone, late := Ends(ctx)
			select {
			case <-gone:
			case <-late:
			}
			return time.Since(start), ctx.Err()
		}
		if took, err := waits(g.Bound(parent)); took != timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late: %v after %v", err, took)
		}
		if took, err := waits(g.Bound(context.Background())); took != timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a caller who never leaves: %v after %v", err, took)
		}
		time.AfterFunc(timeout/5, leave)
		if took, err := waits(g.Bound(parent)); took != timeout/5 || !errors.Is(err, context.Canceled) {
			t.Errorf("gone: %v after %v", err, took)
		}
		released := g.Bound(t.Context())
		released.Release()
		if took, err := waits(released); took != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("released: %v after %v", err, took)
		}
		short, cancel := context.WithTimeout(t.Context(), timeout/2)
		defer cancel()
		if took, err := waits(short); took != timeout/2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another's: %v after %v", err, took)
		}
		if gone, late := Ends(context.Background()); gone != nil || late != nil {
			t.Error("one that never ends does")
		}
	})
}

// A parent's earlier deadline is that of the call.
func TestEarlierParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), timeout/2)
		defer cancel()
		ours := NewGroup(timeout).Bound(parent)
		defer ours.Release()
		if d, _ := ours.Deadline(); time.Until(d) != timeout/2 {
			t.Errorf("the deadline is in %v", time.Until(d))
		}
		start := time.Now()
		gone, _ := Ends(ours)
		<-gone
		if time.Since(start) != timeout/2 || !errors.Is(ours.Err(), context.DeadlineExceeded) || !over(ours.Done()) {
			t.Errorf("%v after %v", ours.Err(), time.Since(start))
		}
	})
}

// A deadline is never later than the timeout and earlier by less than a part of it; and there are few of them, whose timers
// all go when they are over.
func TestSharedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(timeout)
		different := map[time.Time]bool{}
		var waiting sync.WaitGroup
		start := time.Now()
		for i := range 20_000 {
			ours := g.Bound(t.Context())
			d, _ := ours.Deadline()
			if left := time.Until(d); left > timeout || left <= timeout-timeout/parts {
				t.Fatalf("call %d has %v", i, left)
			}
			different[d] = true
			waiting.Go(func() {
				defer ours.Release()
				_, late := Ends(ours)
				<-late
				if !time.Now().Equal(d) || !errors.Is(ours.Err(), context.DeadlineExceeded) {
					t.Errorf("told %v after its deadline: %v", time.Since(d), ours.Err())
				}
			})
			time.Sleep(50 * time.Microsecond)
		}
		asked := time.Since(start)
		waiting.Wait()
		if most := int(asked/(timeout/parts)) + 1; len(different) > most {
			t.Errorf("%d deadlines in %v, not %d", len(different), asked, most)
		}
	})
}

// A timeout that has no parts is one for each call.
func TestShortestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(time.Nanosecond)
		for range 3 {
			ours := g.Bound(t.Context())
			_, late := Ends(ours)
			<-late
			if !errors.Is(ours.Err(), context.DeadlineExceeded) {
				t.Error(ours.Err())
			}
			ours.Release()
		}
	})
}

// Whoever asks at the same time is told the same.
func TestManyAtOnce(t *testing.T) {
	g := NewGroup(2 * time.Millisecond)
	server, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 300 {
				parent, leave := context.WithCancel(server)
				ours := g.Bound(parent)
				var askers sync.WaitGroup
				channels := make([]<-chan struct{}, 3)
				for j := range channels {
					askers.Go(func() {
						_, _ = Ends(ours)
						_, _ = ours.Err(), ours.Value(fmt.Stringer(nil))
						channels[j] = ours.Done()
						if over(channels[j]) && ours.Err() == nil {
							t.Error("it has ended, and says that it has not")
						}
					})
				}
				switch (n + i) % 4 {
				case 0:
					leave()
				case 1:
					ours.Release()
				case 2:
					<-ours.Done()
				}
				askers.Wait()
				ours.Release()
				leave()
				for _, c := range channels {
					if c != channels[0] || !over(c) {
						t.Error("there is more than one Done")
					}
				}
				if first := ours.Err(); first == nil || first != ours.Err() { //nolint:errorlint // the very same
					t.Errorf("it says %v", first)
				}
			}
		})
	}
	all.Wait()
}

// What a call costs that is answered in time: the context alone.
func TestAllocations(t *testing.T) {
	g := NewGroup(time.Hour)
	parent, leave := context.WithCancel(t.Context())
	defer leave()
	_ = parent.Done()
	n := testing.AllocsPerRun(1000, func() {
		ours := g.Bound(parent)
		_, _ = Ends(ours)
		if ours.Err() != nil {
			t.Error(ours.Err())
		}
		ours.Release()
	})
	if n > 1 {
		t.Errorf("%v allocations", n)
	}
}
