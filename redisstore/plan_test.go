package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
)

// asker is one of those whom a waiter stands for.
type asker struct {
	w   *waiter
	nth int
}

func (c asker) answer() ([]tidegate.Decision, error) {
	ds := make([]tidegate.Decision, len(c.w.items))
	return ds, c.w.answer(c.nth, ds)
}

// batchOf makes takes leave together, as a sender does. Where they are alike, and alike says so, they share a waiter,
// which somebody else may have left.
func batchOf(t *testing.T, s *Store, charges [][]tidegate.Charge, alike func() bool) (takes []*taking, callers []asker, free func()) {
	t.Helper()
	d := &dispatcher{store: s, batch: 1, forming: 1} // who forms is this test
	enter := func(cs []tidegate.Charge, leaves bool) {
		items := make([]item, len(cs))
		if err := s.fill(items, cs); err != nil {
			t.Fatal(err)
		}
		var c asker
		if t, ok := simpleOf(items); ok && alike() {
			c.w, c.nth, _ = d.join(&t)
		}
		if c.w == nil {
			c.w = s.batches.newWaiter(items)
			d.buckets.hold(c.w)
			c.w.since = s.elapsed()
			d.ready = append(d.ready, c.w)
			d.eager++
			d.queued++
			d.lately.Store(items[0].tag + 1)
		}
		if leaves {
			d.leave(c.w, c.nth)
		} else {
			callers = append(callers, c)
		}
	}
	for _, cs := range charges {
		for alike() {
			enter(cs, true)
		}
		enter(cs, false)
	}
	batch, late := d.form(nil, nil)
	if len(late)+len(d.ready)+d.eager+d.queued > 0 {
		t.Fatalf("not all takes left together: %d late, %d ready, %d eager, %d queued", len(late), len(d.ready), d.eager, d.queued)
	}
	for _, w := range batch {
		takes = append(takes, &w.taking)
	}
	return takes, callers, func() {
		for _, w := range batch {
			d.free(w)
		}
	}
}

func never() bool { return false }

// A batch decides as one take after the other would: those of one bucket and of several, of windows, at one cost and at
// many, and those for which the take script is needed.
func TestBatchDecidesInOrder(t *testing.T) {
	srv := redistest.Start(t)
	seed := uint64(envInt(t, "TIDEGATE_CONFORMANCE_SEED", int(time.Now().UnixNano()&0xffffffff)))
	t.Logf("seed %d: repeat with TIDEGATE_CONFORMANCE_SEED=%d", seed, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	now := int64(base)
	goes := memstore.New(&memstore.Config{Now: func() time.Time { return time.UnixMicro(now) }, SweepEvery: -1})
	defer goes.Close()
	s := openStore(t, srv.URL(), nil)
	s.scripts, s.inject = newScripts(true), func() int64 { return now }
	limits := []*tidegate.Limit{
		parseLimit(t, "100/s burst 20"), parseLimit(t, "7/3s burst 30"), parseLimit(t, "10/day burst 1000"),
		parseLimit(t, "50/s leaky-bucket queue 9"), parseLimit(t, "1000000/s burst 40"),
		parseLimit(t, "20/s fixed-window"), parseLimit(t, "30/3s fixed-window"), parseLimit(t, "1000/day fixed-window"),
	}
	const buckets = 5 // the first of them
	const rounds, most = 300, 40
	var how [4]int
	for round := range rounds {
		now += pick(r, 0, 1, r.Int64N(1000), r.Int64N(1_000_000), -r.Int64N(5000), r.Int64N(1e11))
		slow, kinds := r.IntN(2) == 0, 1+r.IntN(3)
		from, to := 0, len(limits)
		switch r.IntN(3) {
		case 0:
			to = buckets
		case 1:
			from = buckets
		}
		var charges [][]tidegate.Charge
		for range 1 + r.IntN(most) {
			var cs []tidegate.Charge
			for range 1 + r.IntN(kinds) {
				l := from + r.IntN(to-from)
				c := tidegate.Charge{Rule: fmt.Sprint(l), Key: pick(r, "a", "b", "c"), Limit: limits[l], Cost: 1}
				if kinds > 1 {
					c.Cost += r.Int64N(4)
				}
				c.Shadow = slow && r.IntN(12) == 0
				cs = append(cs, c)
			}
			charges = append(charges, cs)
		}
		alike := func() bool { return r.IntN(3) == 0 }
		takes, _, free := batchOf(t, s, charges, alike)
		var p plan
		p.make(takes)
		for i, n := range []int{len(p.runs), len(p.several), len(p.windows), len(p.slow)} {
			how[i] += n
		}
		free()
		takes, callers, free := batchOf(t, s, charges, alike)
		s.decideBatch(context.Background(), takes, new(plan))
		for i, cs := range charges {
			want, err := goes.Take(context.Background(), cs, nil)
			ds, failed := callers[i].answer()
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got := fmt.Sprintf("%+v", ds); got != fmt.Sprintf("%+v", want) {
				t.Fatalf("round %d, take %d of %d, %+v:\ngot  %s\nwant %+v", round, i+1, len(charges), cs, got, want)
			}
		}
		free()
	}
	for i, name := range []string{"runs", "takes of several", "takes of windows", "slow takes"} {
		if how[i] < rounds/4 {
			t.Errorf("%d %s in %d batches: too few to tell", how[i], name, rounds)
		}
	}
}

// A window that is of another limit, that holds something for the next one, or that is no window of ours is left alone
// with the takes that need it, and all are decided; also where a clock has gone back.
func TestWindowsLeaveOthersToTake(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	now := int64(base)
	s.scripts, s.inject = newScripts(true), func() int64 { return now }
	old, newer := newCharge(t, "r", "changed", "10/h fixed-window", 1), newCharge(t, "r", "changed", "20/h fixed-window", 1)
	newer.Version = 7
	next := newCharge(t, "r", "next", "2/h fixed-window", 2)
	reserved := next
	reserved.MaxWait = 2 * time.Hour
	other := newCharge(t, "r", "other", "10/h fixed-window", 1)
	mustTake(t, s, newer)
	mustTake(t, s, next)
	mustTake(t, s, reserved)
	takes, _, free := batchOf(t, s, [][]tidegate.Charge{{old, other}, {other, next}, {other}}, never)
	defer free()
	s.decideBatch(context.Background(), takes, new(plan))
	for i, want := range []string{"true 20 18", "true 10 8", "true 10 9"} { // the takes that are left alone come last
		d := takes[i].decisions[0]
		if got := fmt.Sprint(d.Allowed, d.Limit, d.Remaining); takes[i].err != nil || got != want {
			t.Errorf("take %d: %v, %s, want %s", i, takes[i].err, got, want)
		}
	}
	if d := takes[1].decisions[1]; d.Allowed || d.RetryAfter <= time.Hour {
		t.Errorf("%+v: want it refused until the window after the next", d)
	}
	now -= 3 * time.Hour.Microseconds()
	for _, want := range []int64{7, 6} {
		if d := mustTake(t, s, other)[0]; d.Remaining != want || d.ResetAfter > time.Hour {
			t.Errorf("three hours back: %+v, want %d remaining", d, want)
		}
	}
}

// A bucket of another limit, which is newer, is left alone with the takes that need it, and all are decided.
func TestSeveralLeavesOtherLimitsToTake(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	old, newer := newCharge(t, "r", "changed", "10/h", 1), newCharge(t, "r", "changed", "20/h", 1)
	newer.Version = 7
	other, third := newCharge(t, "r", "other", "10/h", 1), newCharge(t, "r", "third", "10/h", 1)
	mustTake(t, s, newer)
	takes, _, free := batchOf(t, s, [][]tidegate.Charge{{old, other}, {other, third}, {third, old}}, never)
	defer free()
	s.decideBatch(context.Background(), takes, new(plan))
	for i, take := range takes {
		for _, d := range take.decisions {
			if take.err != nil || !d.Allowed {
				t.Errorf("take %d: %v, %+v", i, take.err, d)
			}
		}
	}
	if d := takes[2].decisions[1]; d.Limit != 20 || d.Remaining != 17 {
		t.Errorf("%+v: want it decided under the newer limit, of which 3 are used", d)
	}
	for _, c := range []tidegate.Charge{other, third} {
		if n := remaining(t, s, c); n != 8 {
			t.Errorf("%s: %d remain, not 8", c.Key, n)
		}
	}
}
