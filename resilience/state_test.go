package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// An outage and the return log a few lines, whatever is asked meanwhile, and tell how long it lasted; so do the hooks.
func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		var mu sync.Mutex
		var changes []StateChange
		kinds := map[ErrorKind]int{}
		r := newReplica(t, sv, Config{Hooks: Hooks{
			State: func(c StateChange) { mu.Lock(); changes = append(changes, c); mu.Unlock() },
			Call:  func(_ string, _ time.Duration, k ErrorKind) { mu.Lock(); kinds[k]++; mu.Unlock() },
		}})
		other := newReplica(t, sv, Config{})
		c := charge(t, "api", "k", "1000/s", 1)
		time.Sleep(3 * time.Second)
		r.way.set(fails("LOADING"))
		other.way.set(fails("LOADING"))
		for range 600 {
			r.take(c)
			time.Sleep(100 * time.Millisecond)
		}
		r.way.set(nil)
		other.way.set(nil)
		time.Sleep(10 * time.Second)
		r.take(c)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(changes) != 3 || changes[0].To != Fallback || changes[1].To != Returning || changes[2].To != Shared ||
			changes[1].Lasted < 55*time.Second || changes[1].Lasted > 61*time.Second || changes[2].Lasted > stageTime {
			t.Errorf("%+v", changes)
		}
		if kinds[KindLoading] < 100 || kinds[NoError] == 0 {
			t.Errorf("%v", kinds)
		}
		if n := r.log.count(); n != 3 || !strings.Contains(r.log.String(), "kind=loading") || !strings.Contains(r.log.String(), "lasted=59.") {
			t.Errorf("%d lines:\n%s", n, r.log)
		}
	})
}

// A store of which only takes fail does not make the replica flap, and what comes and goes is logged as such and no more,
// until it stays.
func TestNoFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		c := charge(t, "api", "k", "1000/s", 1)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return do()
			}
			return fails("something")(ctx, op, do)
		})
		for range 60_000 {
			r.take(c)
			time.Sleep(10 * time.Millisecond)
		}
		r.way.set(nil)
		time.Sleep(30 * time.Second)
		if n := r.log.count(); n >= 20 || !strings.Contains(r.log.String(), "comes and goes") || !strings.Contains(r.log.String(), "and stays") {
			t.Errorf("%d lines in ten minutes:\n%s", n, r.log)
		}
		before := r.log.count()
		r.drop(fails("an outage of its own"))
		if n := r.log.count() - before; n != 1 {
			t.Errorf("%d lines as the next outage begins:\n%s", n, r.log)
		}
	})
}

// A server that evicts loses the marker again and again. That is logged once a minute at most: by the first beat that finds it
// lost a minute or more after the last line, with how many have since. As beats are up to 25 ms before or after their phase in a
// second, that is the sixtieth or the one after.
func TestLossesAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{})
		begin := time.Now()
		for i := range 300 { // the beats at 0 s leave a marker; those of each second find it lost
			time.Sleep(time.Second)
			sv.mu.Lock()
			sv.table.SetMarker(fmt.Sprint(i))
			sv.mu.Unlock()
		}
		logged := strings.Split(strings.TrimSpace(r.log.String()), "\n")
		if len(logged) != 5 { // at about 1, 61, 122, 183 and 244 s, since a minute and a beat is less than 61.1 s
			t.Fatalf("%d lines in five minutes:\n%s", len(logged), r.log)
		}
		for i, last := 0, begin; i < len(logged); i++ {
			_, at, _ := strings.Cut(logged[i], "time=")
			at, _, _ = strings.Cut(at, " ")
			now, err := time.Parse(time.RFC3339, at) // whole milliseconds, rounded down
			if err != nil {
				t.Fatal(err)
			}
			if d := now.Sub(last); i > 0 && (d < time.Minute || d > time.Minute+beatEvery+2*phaseJitter+time.Millisecond) {
				t.Errorf("%v after the line before:\n%s", d, logged[i])
			}
			if want := fmt.Sprint(" times=", now.Unix()-last.Unix()); !strings.HasSuffix(logged[i], want) {
				t.Errorf("want%s, a loss for each second since the line before:\n%s", want, logged[i])
			}
			last = now
		}
	})
}

// Of an opening and a closing at the same moment the state is that of the breaker, whoever tells of it first.
func TestStateFollowsTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		synctest.Wait()
		r.breaker.set(true) // by a call, whose goroutine is held up
		r.back(&tidegate.Table{Now: time.Now().UnixMicro()}, false)
		r.opened(errors.New("late"))
		if _, closed := r.breaker.begin(); !closed || r.Status().State != Shared {
			t.Errorf("closed is %t, %+v", closed, r.Status())
		}
		r.drop(fails("down"))
		if r.finish(); r.Status().State != Fallback { // a heartbeat that was answered just before
			t.Errorf("the end of an earlier return: %+v", r.Status())
		}
		if r.log.count() != 1 {
			t.Errorf("%s", r.log)
		}
	})
}

// The hook for changes of state may ask how things are.
func TestStateHookMayAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *replica
		var states []State
		r = newReplica(t, newServer(t), Config{Replicas: 1, Hooks: Hooks{State: func(c StateChange) {
			if st := r.Status(); st.State == c.To {
				states = append(states, st.State)
			}
		}}})
		r.drop(fails("down"))
		r.way.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(states, []State{Fallback, Shared}) {
			t.Errorf("%v", states)
		}
	})
}
