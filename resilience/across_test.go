package resilience

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A reservation that was made alone and is settled when the store has been charged with it: so is the store.
func TestSettleAfterTheReturn(t *testing.T) {
	for _, text := range []string{"100/1000h", "100/9000h fixed-window", "100/9000h sliding-window"} {
		for settled, want := range map[int64]int64{0: 100, 4: 96, 10: 90, 35: 65} {
			t.Run(fmt.Sprint(text, " ", settled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sv := newServer(t)
					r := newReplica(t, sv, Config{Replicas: 1})
					r.drop(fails("down"))
					c := charge(t, "api", "k", text, 10)
					c.ID, c.Hold = "alone", time.Hour
					r.take(c)
					r.way.set(nil)
					time.Sleep(3 * time.Second)
					if n := sv.remains(t, c); n != 90 {
						t.Fatalf("%d remain after the return", n)
					}
					if err := r.Settle(context.Background(), "alone", []tidegate.Charge{c}, settled); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
					if n := sv.remains(t, c); n != want || r.Status().Debts != 0 {
						t.Errorf("%d remain, want %d; %+v", n, want, r.Status())
					}
				})
			})
		}
	}
}

// A settlement in the next outage of what was paid since is not lost, as far as it is more.
func TestSettleInTheNextOutage(t *testing.T) {
	for settled, want := range map[int64]int64{4: 90, 35: 65} { // what came back stays charged
		synctest.Test(t, func(t *testing.T) {
			sv := newServer(t)
			r := newReplica(t, sv, Config{Replicas: 1})
			r.drop(fails("down"))
			c := charge(t, "api", "k", "100/1000h", 10)
			c.ID, c.Hold = "alone", time.Hour
			r.take(c)
			r.way.set(nil)
			time.Sleep(3 * time.Second)
			r.drop(fails("down"))
			if err := r.Settle(context.Background(), "alone", []tidegate.Charge{c}, settled); err != nil {
				t.Fatal(err)
			}
			r.way.set(nil)
			time.Sleep(3 * time.Second)
			if n := sv.remains(t, c); n != want {
				t.Errorf("settled for %d: %d remain, want %d", settled, n, want)
			}
		})
	}
}

// In a staged return permits too are given by the store and within the share, since others still give away theirs.
func TestPermitsInAStagedReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 2, Config{})
		time.Sleep(4 * time.Second)
		for _, r := range rs {
			r.drop(fails("down"))
		}
		acquire := func(r *replica, n int) (given int) {
			for range n {
				c := charge(t, "jobs", "k", "10 concurrent ttl 1m", 1)
				c.ID = fmt.Sprint(r.cfg.ID, time.Now().UnixNano())
				if d := r.take(c); d.Allowed {
					given++
				}
				time.Sleep(time.Microsecond)
			}
			return given
		}
		if n := acquire(rs[1], 10); n != 5 {
			t.Fatalf("%d of half of ten", n)
		}
		rs[0].way.set(nil)
		time.Sleep(300 * time.Millisecond)
		if n := acquire(rs[0], 10); n != 5 || rs[0].Status().State != Returning {
			t.Errorf("%d while the other holds five, %+v", n, rs[0].Status())
		}
		rs[1].way.set(nil)
		time.Sleep(4 * time.Second)
		c := charge(t, "jobs", "k", "10 concurrent ttl 1m", 1)
		if n := sv.remains(t, c); n != 0 {
			t.Errorf("%d remain when all are held", n)
		}
		id := func(c tidegate.Charge, id string) tidegate.Charge { c.ID = id; return c }
		if d := rs[0].take(id(c, "eleventh")); d.Allowed || d.Source != tidegate.SourceStore {
			t.Errorf("an eleventh: %+v", d)
		}
	})
}

// What a staged return refuses, be it the share or the store, holds no permit and no token.
func TestRefusedInAStagedReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 2, Config{})
		time.Sleep(4 * time.Second)
		for _, r := range rs {
			r.drop(fails("down"))
		}
		permit := charge(t, "jobs", "k", "10 concurrent ttl 1m", 1)
		token := charge(t, "api", "k", "10/1000h", 1)
		ask := func(id, key string) tidegate.Decision {
			p, t := permit, token
			p.ID, t.Key = id, key
			return rs[0].take(p, t)
		}
		full := token
		full.Cost = 10
		if _, err := sv.store.Take(context.Background(), []tidegate.Charge{full}, nil); err != nil {
			t.Fatal(err)
		}
		rs[0].way.set(nil)
		time.Sleep(300 * time.Millisecond)
		for i := range 20 {
			if d := ask(fmt.Sprint("refused ", i), "k"); d.Allowed || i == 0 && d.Source != tidegate.SourceStore {
				t.Fatalf("%+v", d)
			}
		}
		if n := sv.remains(t, permit); n != 10 {
			t.Errorf("%d permits remain of ten", n)
		}
		n := 0
		for i := range 20 {
			if ask(fmt.Sprint("allowed ", i), "another").Allowed {
				n++
			}
		}
		if n != 5 || rs[0].Status().State != Returning {
			t.Errorf("%d passed by half of the limits, %+v", n, rs[0].Status())
		}
	})
}

// A permit that the policy allow gave in an outage can be renewed and released in it.
func TestPermitsOfAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		r.drop(fails("down"))
		ctx := context.Background()
		permit := func(id string) tidegate.Charge {
			c := charge(t, "jobs", "k", "2 concurrent ttl 1m", 1)
			c.ID, c.OnFailure.Action = id, tidegate.FailAllow
			return c
		}
		for _, id := range []string{"a", "b", "c"} {
			if d := r.take(permit(id)); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		for range 3 {
			time.Sleep(30 * time.Second)
			for _, id := range []string{"a", "b"} {
				if err := r.Renew(ctx, id, []tidegate.Charge{permit(id)}); err != nil {
					t.Errorf("renew %s: %v", id, err)
				}
			}
		}
		if err := r.Release(ctx, "b", []tidegate.Charge{permit("b")}); err != nil {
			t.Errorf("release: %v", err)
		}
		for _, id := range []string{"b", "c"} { // released, and expired
			if err := r.Release(ctx, id, []tidegate.Charge{permit(id)}); err == nil {
				t.Errorf("%s is released twice", id)
			}
		}
		r.way.set(nil)
		time.Sleep(3 * time.Second)
		if n := sv.remains(t, permit("a")); n != 1 {
			t.Errorf("%d remain of two when a is held", n)
		}
	})
}

// The error of a call that fails is its own, and not that of an outage long ago.
func TestErrorIsOfThisFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		r.drop(fails("the old outage"))
		r.way.set(nil)
		time.Sleep(time.Minute)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return do()
			}
			return fails("what is new")(ctx, op, do)
		})
		c := charge(t, "jobs", "k", "2 concurrent ttl 1m", 1)
		c.ID = "another's"
		err := r.Renew(context.Background(), c.ID, []tidegate.Charge{c})
		if err == nil || !strings.Contains(err.Error(), "what is new") {
			t.Errorf("%v", err)
		}
	})
}

// What cannot be made good of lost data at once is made good later, and nothing passes before.
func TestRestoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		time.Sleep(2 * time.Second)
		c := charge(t, "api", "k", "100/1000h", 1)
		r.admits(c, 80)
		sv.wipe()
		time.Sleep(2 * time.Second) // the marker's loss is noticed
		var n atomic.Int64
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "take" && n.Add(1) < 3 {
				return fails("LOADING")(ctx, op, do)
			}
			return do()
		})
		if d := r.take(c); d.Source != tidegate.SourceFallback {
			t.Errorf("%+v", d)
		}
		r.way.set(nil)
		time.Sleep(2 * time.Second)
		if d := r.take(c); d.Remaining > 18 || d.Source != tidegate.SourceStore {
			t.Errorf("%+v", d)
		}
	})
}

// A bucket that is reset owes nothing, and nothing of it was forgotten.
func TestResetOwesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		c := charge(t, "api", "k", "100/1000h", 1)
		r.owes(onlyBeats, c)
		r.way.set(nil)
		if err := r.Reset(context.Background(), []tidegate.Charge{c}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if st := r.Status(); st.Debts != 0 || st.Forgotten != 0 || sv.remains(t, c) != 100 {
			t.Errorf("%+v, %d remain", st, sv.remains(t, c))
		}
	})
}

// What is still owed when the next outage begins has been had: the store has not told of it.
func TestOwedWhenTheNextOutageBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		time.Sleep(time.Second)
		c := charge(t, "api", "k", "100/1000h", 1)
		r.drop(fails("down"))
		n := r.admits(c, 60)
		r.way.set(func(ctx context.Context, op string, do func() error) error {
			if op == "beat" {
				return do()
			}
			return fails("LOADING")(ctx, op, do)
		})
		for r.Status().State == Fallback {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if n += r.admits(c, 100); n != 100 || r.Status().State != Fallback {
			t.Errorf("%d passed of 100 in two outages, %+v", n, r.Status())
		}
		r.way.set(nil)
		time.Sleep(5 * time.Second)
		if n := sv.remains(t, c); n != 0 {
			t.Errorf("%d remain", n)
		}
	})
}

// A replica that leaves while a return is staged pays what it owes before it goes.
func TestPaysBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 2, Config{})
		time.Sleep(4 * time.Second)
		for _, r := range rs {
			r.drop(fails("down"))
		}
		for i := range 100 {
			rs[0].admits(charge(t, "api", fmt.Sprint(i), "100/1000h", 1), 10)
		}
		rs[0].way.set(nil)
		time.Sleep(300 * time.Millisecond)
		if st := rs[0].Status(); st.State != Returning || st.Debts < 100 {
			t.Fatalf("%+v", st)
		}
		if err := rs[0].Close(); err != nil {
			t.Error(err)
		}
		for i := range 100 {
			if n := sv.remains(t, charge(t, "api", fmt.Sprint(i), "100/1000h", 1)); n != 90 {
				t.Fatalf("%d remain of key %d", n, i)
			}
		}
	})
}
