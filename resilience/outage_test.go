package resilience

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A store that does not answer costs each of a thousand callers the deadline once, and then nobody anything.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		c := charge(t, "api", "k", "1000/s burst 5000", 1)
		r.take(c)
		r.way.set(hangs)
		var slowest, sum atomic.Int64
		var all sync.WaitGroup
		crowd := func() {
			for range 1000 {
				all.Go(func() {
					start := time.Now()
					if d := r.take(c); d.Source != tidegate.SourceFallback || !d.Allowed {
						t.Errorf("%+v", d)
					}
					took := int64(time.Since(start))
					sum.Add(took)
					slowest.Store(max(slowest.Load(), took))
				})
			}
			all.Wait()
		}
		crowd()
		if d := time.Duration(slowest.Load()); d != defaultTimeout {
			t.Errorf("the slowest waited %v", d)
		}
		slowest.Store(0)
		crowd()
		if d := time.Duration(slowest.Load()); d != 0 {
			t.Errorf("while it is open, one waited %v", d)
		}
		calls := r.way.calls.Load()
		time.Sleep(time.Second)
		if n := r.way.calls.Load() - calls; n < 3 || n > 10 {
			t.Errorf("%d probes in a second", n)
		}
	})
}

// Callers who come one after the other wait at most as often as it takes to open the breaker.
func TestSlowCallersOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		c := charge(t, "api", "k", "1000/s", 1)
		r.take(c)
		r.way.set(hangs)
		start := time.Now()
		for range 100 {
			r.take(c)
		}
		if took := time.Since(start); took > defaultFailures*defaultTimeout {
			t.Errorf("they waited %v", took)
		}
	})
}

// A store that refuses writes while it still answers refusals is away: the heartbeat is a write.
func TestOnlyWritesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		time.Sleep(2 * time.Second)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return fails("OOM command not allowed")(ctx, op, do)
			}
			return do()
		})
		for range 200 {
			r.take(charge(t, "api", "k", "1/h", 1))
			time.Sleep(10 * time.Millisecond)
		}
		if st := r.Status(); st.State != Fallback || kindOf(st.Err) != KindMemory {
			t.Errorf("%+v", st)
		}
	})
}

// What is wrong with one key is decided without it, and keeps nobody else from the store.
func TestWrongTypeIsOneKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		time.Sleep(10 * time.Millisecond)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "take" {
				return fails("WRONGTYPE Operation against a key")(ctx, op, do)
			}
			return do()
		})
		for range 50 {
			if d := r.take(charge(t, "api", "k", "1000/s", 1)); d.Source != tidegate.SourceFallback {
				t.Fatalf("%+v", d)
			}
		}
		if r.Status().State != Shared {
			t.Error("it opened the breaker")
		}
	})
}

// Of several limits in one take deny wins, allow drops out, and local decides; all say where they come from.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		r.drop(fails("down"))
		local := func(key, text string, cost int64) tidegate.Charge { return charge(t, "local", key, text, cost) }
		policy := func(c tidegate.Charge, a tidegate.FailureAction) tidegate.Charge {
			c.Rule, c.OnFailure.Action = a2s(a), a
			return c
		}
		allow := policy(local("k", "1/h", 1), tidegate.FailAllow)
		deny := policy(local("k", "100/h", 1), tidegate.FailDeny)
		for range 5 {
			if d := r.take(allow); !d.Allowed || d.Source != tidegate.SourceFallback || d.Unavailable() {
				t.Fatalf("allow: %+v", d)
			}
		}
		if d := r.take(deny); d.Allowed || d.Source != tidegate.SourceFallback || !d.Unavailable() || d.RetryAfter <= 0 || d.Rule != "deny" {
			t.Errorf("deny: %+v", d)
		}
		ok := local("a", "2/h", 1)
		if d := r.take(ok, allow, deny); d.Allowed || !d.Unavailable() || d.Rule != "deny" {
			t.Errorf("with deny: %+v", d)
		}
		if n := r.admits(ok, 3); n != 2 {
			t.Errorf("%d passed after a refusal by deny, which charges nothing", n)
		}
		if d := r.take(ok, allow); d.Allowed || d.Unavailable() || d.Rule != "local" || d.Source != tidegate.SourceFallback {
			t.Errorf("local decides: %+v", d)
		}
		shadow := deny
		shadow.Shadow = true
		if d := r.take(local("b", "2/h", 1), shadow); !d.Allowed {
			t.Errorf("deny in shadow refuses: %+v", d)
		}
		none, unlimited := local("n", "none", 1), local("u", "unlimited", 1)
		if d := r.take(none); d.Allowed || d.RetryAfter != tidegate.Never || d.Unavailable() {
			t.Errorf("none: %+v", d)
		}
		if d := r.take(policy(unlimited, tidegate.FailDeny)); !d.Allowed || d.Source != tidegate.SourceUnlimited {
			t.Errorf("unlimited: %+v", d)
		}
		bad := deny
		bad.Limit = &tidegate.Limit{}
		for _, a := range []tidegate.FailureAction{tidegate.FailLocal, tidegate.FailAllow, tidegate.FailDeny} {
			var le *tidegate.LimitError
			if _, err := r.Take(context.Background(), []tidegate.Charge{policy(bad, a)}, nil); !errors.As(err, &le) {
				t.Errorf("%v: an invalid limit: %v", a, err)
			}
		}
		peek := ok
		peek.Cost = 0
		if d := r.take(peek); d.Allowed || d.Source != tidegate.SourceFallback {
			t.Errorf("peek: %+v", d)
		}
		refund := ok
		refund.Cost = -1
		r.take(refund)
		if d := r.take(peek); !d.Allowed || d.Remaining != 1 {
			t.Errorf("after a refund: %+v", d)
		}
	})
}

func a2s(a tidegate.FailureAction) string { return tidegate.FailurePolicy{Action: a}.String() }

// The share of a limit starts at what remained when the store last told, and what came back since; a key never seen is full.
func TestStartsAtWhatRemained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		fixed := func(c tidegate.Charge) tidegate.Charge { c.OnFailure.Share = 0.5; return c }
		seen := fixed(charge(t, "api", "seen", "36/h burst 100", 60))
		window := fixed(charge(t, "api", "window", "100/h fixed-window", 60))
		log := fixed(charge(t, "api", "log", "100/h sliding-log", 60))
		r.take(seen)
		r.take(window)
		r.take(log)
		time.Sleep(10 * time.Minute) // six come back
		r.drop(fails("down"))
		for c, want := range map[string]int64{"seen": 23, "window": 20, "log": 20, "new": 50} {
			ask := map[string]tidegate.Charge{"seen": seen, "window": window, "log": log, "new": fixed(charge(t, "api", "new", "100/h", 1))}[c]
			ask.Cost = 1
			if n := r.admits(ask, 60); n != want {
				t.Errorf("%s: %d passed, want %d", c, n, want)
			}
		}
	})
}

// What was reserved in fallback is settled in this process; what the store holds cannot be while it is away.
func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		ctx := context.Background()
		reserve := func(id string) tidegate.Charge {
			c := charge(t, "api", "k", "100/1000h", 10)
			c.ID, c.Hold = id, time.Hour
			return c
		}
		stored := reserve("stored")
		r.take(stored)
		r.drop(fails("down"))
		err := r.Settle(ctx, "stored", []tidegate.Charge{stored}, 1)
		if !errors.Is(err, tidegate.ErrStore) || !strings.Contains(err.Error(), "down") {
			t.Errorf("settling what the store holds: %v", err)
		}
		alone := reserve("alone")
		if d := r.take(alone); d.Remaining != 80 {
			t.Fatalf("%+v", d)
		}
		if err := r.Settle(ctx, "alone", []tidegate.Charge{alone}, 4); err != nil {
			t.Error(err)
		}
		peek := alone
		peek.Cost, peek.ID = 0, ""
		if d := r.take(peek); d.Remaining != 86 {
			t.Errorf("after settling: %+v", d)
		}
		if err := r.Settle(ctx, "alone", []tidegate.Charge{alone}, 4); err == nil {
			t.Error("it is settled twice")
		}
		if err := r.Reset(ctx, []tidegate.Charge{peek}); !errors.Is(err, tidegate.ErrStore) {
			t.Errorf("reset: %v", err)
		}
		if now, err := r.Now(ctx); err != nil || time.Since(now).Abs() > time.Second {
			t.Errorf("now: %v, %v", now, err)
		}
		another := reserve("another")
		r.take(another)
		r.way.set(nil)
		time.Sleep(5 * time.Second)
		if n := r.way.remains(t, peek); n != 100-10-4-10 {
			t.Errorf("%d remain after the return", n)
		}
		if err := r.Settle(ctx, "stored", []tidegate.Charge{stored}, 0); err != nil {
			t.Error(err)
		}
	})
}

// Permits that are held when the store goes away count against the share; all are known to the store again after.
func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		ctx := context.Background()
		permit := func(id string) tidegate.Charge {
			c := charge(t, "jobs", "k", "10 concurrent ttl 1m", 1)
			c.ID, c.OnFailure.Share = id, 0.5
			return c
		}
		for _, id := range []string{"a", "b", "c"} {
			r.take(permit(id))
		}
		r.drop(fails("down"))
		for id, want := range map[string]bool{"d": true, "e": true} {
			if d := r.take(permit(id)); d.Allowed != want || d.Source != tidegate.SourceFallback {
				t.Errorf("%s: %+v", id, d)
			}
		}
		if d := r.take(permit("f")); d.Allowed {
			t.Errorf("a sixth of five: %+v", d)
		}
		for range 3 { // beyond the time to live
			time.Sleep(30 * time.Second)
			for _, id := range []string{"b", "c", "d", "e"} {
				if err := r.Renew(ctx, id, []tidegate.Charge{permit(id)}); err != nil {
					t.Errorf("renew %s: %v", id, err)
				}
			}
		}
		if err := r.Release(ctx, "c", []tidegate.Charge{permit("c")}); err != nil {
			t.Error(err)
		}
		if err := r.Renew(ctx, "nobody's", []tidegate.Charge{permit("nobody's")}); !errors.Is(err, tidegate.ErrStore) {
			t.Errorf("renewing what another may hold: %v", err)
		}
		r.way.set(nil)
		time.Sleep(5 * time.Second)
		if n := sv.remains(t, permit("a")); n != 7 {
			t.Errorf("%d remain of ten, when b, d and e are held", n)
		}
		for _, id := range []string{"b", "d", "e"} {
			if err := r.Release(ctx, id, []tidegate.Charge{permit(id)}); err != nil {
				t.Errorf("release %s: %v", id, err)
			}
		}
		if n := sv.remains(t, permit("a")); n != 10 {
			t.Errorf("%d remain of ten, when none is held", n)
		}
	})
}

// A replica that never saw the store takes its part of Replicas, or warns once that it takes the whole.
func TestNeverSawTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for replicas, want := range map[int]int64{0: 100, 4: 25} {
			sv := newServer(t)
			r := &replica{way: &way{server: sv}, log: &lines{}, t: t}
			r.way.set(hangs)
			r2 := newReplicaOn(t, r, Config{Replicas: replicas})
			if n := r2.admits(charge(t, "api", "k", "100/1000h", 1), 200); n != want {
				t.Errorf("of %d replicas: %d passed", replicas, n)
			}
			if warned := strings.Count(r2.log.String(), "never answered"); warned != map[int]int{0: 1, 4: 0}[replicas] {
				t.Errorf("of %d replicas: warned %d times", replicas, warned)
			}
		}
	})
}
