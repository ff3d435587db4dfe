package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
)

// acrossSlots are the tests of takes whose buckets are in different slots of a cluster; TestCluster runs them.
type acrossSlots struct {
	clu          *redistest.Cluster
	store, other *Store
	places       []place // in turn on each node
}

// takes checks takes whose buckets are in three slots of three nodes, in every order of their charges.
func (a *acrossSlots) takes(t *testing.T) {
	s, ps := a.store, a.places
	limits := [4]string{"10/1000h", "10/9000h sliding-log", "10/9000h fixed-window", "10/9000h sliding-window"}
	for i, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}, {0, 2, 1, 3}, {1, 0, 3, 2}} {
		for what, v := range map[string]struct {
			spent   []int64 // of 10, before
			shadow  int     // which charge is in shadow
			allowed []bool
			left    []int64
		}{
			"allowed":             {[]int64{0, 9, 5, 0}, -1, []bool{true, true, true, true}, []int64{9, 0, 4, 9}},
			"refused by one":      {[]int64{0, 10, 5, 0}, -1, []bool{true, false, true, true}, []int64{10, 0, 5, 10}},
			"refused by two":      {[]int64{10, 0, 0, 10}, -1, []bool{false, true, true, false}, []int64{0, 10, 10, 0}},
			"refused by the last": {[]int64{0, 0, 0, 10}, -1, []bool{true, true, true, false}, []int64{10, 10, 10, 0}},
			"shadow has no room":  {[]int64{0, 10, 5, 0}, 1, []bool{true, false, true, true}, []int64{9, 0, 4, 9}},
			"shadow has room":     {[]int64{0, 3, 5, 0}, 1, []bool{true, true, true, true}, []int64{9, 6, 4, 9}},
			"refused with shadow": {[]int64{0, 3, 10, 0}, 1, []bool{true, true, false, true}, []int64{10, 7, 0, 10}},
		} {
			t.Run(fmt.Sprintf("%s %v", what, order), func(t *testing.T) {
				rule := fmt.Sprintf("%s %d", what, i)
				var base []tidegate.Charge
				for j := range 4 {
					// Two of the four are limits of one key.
					c := newCharge(t, rule+strconv.Itoa(j), ps[min(j, 2)].key, limits[(i+j)%4], v.spent[j])
					if c.Cost > 0 {
						mustTake(t, s, c)
					}
					c.Cost, c.Shadow = 1, j == v.shadow
					base = append(base, c)
				}
				charges := make([]tidegate.Charge, len(order))
				for at, j := range order {
					charges[at] = base[j]
				}
				ds := mustTake(t, s, charges...)
				for at, j := range order {
					d := ds[at]
					if d.Allowed != v.allowed[j] || d.Remaining != v.left[j] || d.Rule != base[j].Rule || d.Limit != 10 {
						t.Errorf("charge %d: %+v, but allowed should be %v and %d remain", j, d, v.allowed[j], v.left[j])
					}
					if n := remaining(t, s, base[j]); n != v.left[j] {
						t.Errorf("charge %d: its bucket has %d, not %d", j, n, v.left[j])
					}
				}
			})
		}
	}
}

// random compares takes across slots, and what is settled and released, with those of a store in memory,
// which decides at one moment.
func (a *acrossSlots) random(t *testing.T) {
	s, ps := a.store, a.places
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	mem := memstore.New(nil)
	defer mem.Close()
	ctx := context.Background()
	limits := []string{
		"8/1000h", "8/9000h fixed-window", "8/9000h sliding-window", "8/1000h leaky-bucket queue 7", "8/9000h sliding-log",
		"8 concurrent", "none", "unlimited",
	}
	charge := func(id string) tidegate.Charge {
		n := r.IntN(16)
		c := newCharge(t, "random "+strconv.Itoa(n), ps[r.IntN(5)].key, limits[n%5], r.Int64N(4))
		switch {
		case n > 13 && r.IntN(4) == 0:
			c = newCharge(t, "random none", ps[0].key, limits[n-8], 1)
		case id != "" && n%5 == 4:
			c = newCharge(t, "random permits", c.Key, limits[5], c.Cost)
		case r.IntN(10) == 0:
			c.Cost = -r.Int64N(3)
		}
		if r.IntN(5) == 0 && n%5 < 4 {
			c.MaxWait = 2000 * time.Hour
		}
		c.ID, c.Shadow = id, r.IntN(5) == 0
		return c
	}
	for i := range 500 {
		charges := make([]tidegate.Charge, 1+r.IntN(5))
		id := ""
		if r.IntN(3) == 0 {
			id = "take " + strconv.Itoa(i)
		}
		for j := range charges {
			charges[j] = charge(id)
			charges[j].Hold = time.Hour
		}
		want, got := mustTake(t, mem, charges...), mustTake(t, s, charges...)
		for j := range charges {
			w, g := want[j], got[j]
			same := func(a, b time.Duration) bool { return (a - b).Abs() < time.Minute }
			if w.Allowed != g.Allowed || w.Remaining != g.Remaining || w.Limit != g.Limit || w.Source != g.Source ||
				!same(w.RetryAfter, g.RetryAfter) || !same(w.ResetAfter, g.ResetAfter) || !same(w.Delay, g.Delay) {
				var story strings.Builder
				for k := range charges {
					c := &charges[k]
					fmt.Fprintf(&story, "\n[%s/%s %q cost=%d wait=%v id=%q shadow=%v]\nmemory:  %+v\ncluster: %+v",
						c.Rule, c.Key, c.Limit, c.Cost, c.MaxWait, c.ID, c.Shadow, want[k], got[k])
				}
				t.Fatalf("take %d, charge %d of%s", i, j, story.String())
			}
		}
		both := func(what string, f func(tidegate.Store) error) {
			t.Helper()
			if m, c := f(mem), f(s); !errors.Is(c, m) {
				t.Fatalf("take %d: %s of %+v: memory says %v, the cluster %v", i, what, charges, m, c)
			}
		}
		if id != "" && r.IntN(2) == 0 {
			cost := r.Int64N(5)
			both("settle", func(s tidegate.Store) error { return s.Settle(ctx, id, charges, cost) })
			both("renew", func(s tidegate.Store) error { return s.Renew(ctx, id, charges) })
			both("release", func(s tidegate.Store) error { return s.Release(ctx, id, charges) })
		}
		if r.IntN(25) == 0 {
			both("reset", func(s tidegate.Store) error { return s.Reset(ctx, charges) })
		}
	}
}

func (a *acrossSlots) reservations(t *testing.T) {
	s, other, ps := a.store, a.other, a.places
	ctx := context.Background()
	reserve := func(id string, spent ...int64) []tidegate.Charge {
		t.Helper()
		var charges []tidegate.Charge
		for i, n := range spent {
			c := newCharge(t, id, ps[i].key, [...]string{"10/1000h", "10/9000h fixed-window"}[i%2], n)
			if n > 0 {
				mustTake(t, s, c)
			}
			c.Cost, c.ID, c.Hold = 4, id, time.Hour
			charges = append(charges, c)
		}
		return charges
	}
	wantLeft := func(what string, charges []tidegate.Charge, left ...int64) {
		t.Helper()
		for i := range charges {
			if n := remaining(t, other, charges[i]); n != left[i] {
				t.Errorf("%s: bucket %d has %d, not %d", what, i, n, left[i])
			}
		}
	}
	settle := func(id string, charges []tidegate.Charge, cost int64, want error) {
		t.Helper()
		if err := other.Settle(ctx, id, charges, cost); !errors.Is(err, want) {
			t.Errorf("%s for %d: %v", id, cost, err)
		}
	}
	for _, v := range []struct {
		id   string
		cost int64
		left []int64
	}{
		{"less", 1, []int64{9, 7, 4}},
		{"more", 5, []int64{5, 3, 0}},
		{"cancelled", 0, []int64{10, 8, 5}},
	} {
		charges := reserve(v.id, 0, 2, 5)
		for _, d := range mustTake(t, s, charges...) {
			if !d.Allowed {
				t.Fatalf("%s: %+v", v.id, d)
			}
		}
		wantLeft(v.id, charges, 6, 4, 1)
		settle(v.id, charges, v.cost, nil)
		wantLeft(v.id+" settled", charges, v.left...)
		settle(v.id, charges, v.cost, tidegate.ErrUnknownID)
		wantLeft(v.id+" settled twice", charges, v.left...)
	}
	charges := reserve("refused", 0, 7, 5)
	mustTake(t, s, charges...)
	wantLeft("refused", charges, 10, 3, 5)
	settle("refused", charges, 0, tidegate.ErrUnknownID)
	wantLeft("refused and cancelled", charges, 10, 3, 5)
}

func (a *acrossSlots) permits(t *testing.T) {
	s, other, ps := a.store, a.other, a.places
	ctx := context.Background()
	take := func(id string) (allowed bool) {
		t.Helper()
		charges := permitCharges(t, ps, id)
		return tidegate.Combine(charges, mustTake(t, s, charges...)).Allowed
	}
	left := func(what string, want ...int64) {
		t.Helper()
		for i, c := range permitCharges(t, ps, "") {
			if n := remaining(t, other, c); n != want[i] {
				t.Errorf("%s: bucket %d has %d, not %d", what, i, n, want[i])
			}
		}
	}
	if !take("a") || !take("b") {
		t.Fatal("refused")
	}
	left("two are held", 1, 0, 3)
	if take("c") {
		t.Error("a third was given")
	}
	left("a third was refused", 1, 0, 3)
	if err := other.Renew(ctx, "a", permitCharges(t, ps, "")); err != nil {
		t.Error(err)
	}
	if err := other.Renew(ctx, "c", permitCharges(t, ps, "")); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Errorf("renewed what was refused: %v", err)
	}
	if err := other.Release(ctx, "a", permitCharges(t, ps, "")); err != nil {
		t.Error(err)
	}
	left("one was released", 2, 1, 4)
	if err := other.Release(ctx, "a", permitCharges(t, ps, "")); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Errorf("released twice: %v", err)
	}
	if !take("d") {
		t.Error("refused")
	}
	left("two are held again", 1, 0, 3)
}

// permitCharges are permits in three slots, of 3, 2 and 5.
func permitCharges(t *testing.T, ps []place, id string) []tidegate.Charge {
	t.Helper()
	var charges []tidegate.Charge
	for i, n := range []int{3, 2, 5} {
		c := newCharge(t, "permits", ps[i].key, strconv.Itoa(n)+" concurrent", 1)
		if c.ID = id; id == "" {
			c.Cost = 0
		}
		charges = append(charges, c)
	}
	return charges
}

// cancelled: whenever the caller goes away, a take has charged all slots or none (RB-089).
func (a *acrossSlots) cancelled(t *testing.T) {
	s, ps := a.store, a.places
	const takes, callers = 400, 8
	var charges []tidegate.Charge
	for _, p := range ps[:3] {
		charges = append(charges, newCharge(t, "cancel", p.key, "100000/1000h", 1))
	}
	var allowed, cancelled atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range takes / callers {
				ctx, cancel := context.WithCancel(context.Background())
				stop := time.AfterFunc(time.Duration(rand.Int64N(3_000_000)), cancel)
				_, err := s.Take(ctx, charges, nil)
				stop.Stop()
				cancel()
				switch {
				case err == nil:
					allowed.Add(1)
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d takes were decided, %d cancelled", allowed.Load(), cancelled.Load())
	var used []int64
	for i := range charges {
		used = append(used, 100_000-remaining(t, s, charges[i]))
	}
	if slices.Min(used) != slices.Max(used) || used[0] < allowed.Load() {
		t.Errorf("%d were allowed, but the buckets were charged %v", allowed.Load(), used)
	}
}

// silentNode: when the node of a later slot does not answer, what the first slots charged is given back.
func (a *acrossSlots) silentNode(t *testing.T) {
	clu, ps := a.clu, a.places
	s := openStore(t, clu.URL(), &Config{Timeout: 300 * time.Millisecond})
	var charges []tidegate.Charge
	for i, p := range ps[:3] {
		c := newCharge(t, "silent", p.key, "10/1000h", 1)
		charges = append(charges, c)
		if got := remaining(t, s, c); got != 10 {
			t.Fatalf("bucket %d has %d", i, got)
		}
	}
	for i := range charges {
		mustTake(t, s, peekOf(charges[i]))
	}
	for i, p := range ps[:3] {
		clu.Nodes[p.node].Pause()
		start := time.Now()
		_, err := s.Take(context.Background(), charges, nil)
		took := time.Since(start)
		clu.Nodes[p.node].Resume()
		wantStoreError(t, err)
		if took > 600*time.Millisecond+room() {
			t.Errorf("node %d: it took %v", p.node, took)
		}
		for j := range charges {
			if j == i {
				continue // of which nobody can tell whether it was asked
			}
			eventually(t, 10*time.Second, "the node answers", func() error {
				ds, err := s.Take(context.Background(), []tidegate.Charge{peekOf(charges[j])}, nil)
				if err == nil && ds[0].Remaining != 10 {
					t.Errorf("node %d was silent: bucket %d has %d, not 10", p.node, j, ds[0].Remaining)
				}
				return err
			})
		}
		if err := openStore(t, clu.URL(), nil).Reset(context.Background(), charges); err != nil {
			t.Fatal(err)
		}
	}
}
