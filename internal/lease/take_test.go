package lease

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// flat is a limit that gives nothing back while a test runs.
const flat = "1/day burst 1000 lease 50ms"

// The first take of a key asks for what it needs; the next ones for as much again as was used, up to a tenth of the burst.
func TestSliceGrowsWithUse(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	var costs []int64
	admitted := int64(0)
	for range 400 {
		n := len(w.asked)
		d := w.takes(c)[0]
		if !d.Allowed {
			t.Fatalf("%+v", d)
		}
		admitted++
		want := tidegate.SourceLease
		if len(w.asked) > n {
			costs = append(costs, w.last()[0].Cost)
			want = tidegate.SourceStore
		}
		if d.Source != want || d.Limit != 1000 || d.RetryAfter != 0 || d.Rule != "rule" {
			t.Fatalf("%+v: want it from %v", d, want)
		}
	}
	wantCosts(t, costs, 1, 2, 4, 8, 16, 32, 64, 101, 101, 101)
	w.balance(c, admitted)
	if s := w.layer.Stats(); s.Taken != 1+3+7+15+31+63+300 || s.Takes != 390 || s.Spent != 390 || s.Lapsed != 0 {
		t.Errorf("%+v", s)
	}

	// In the next lifetime, what was used in this one.
	w.advance(50 * time.Millisecond)
	w.takes(c)
	wantCosts(t, []int64{w.last()[0].Cost}, 101)
	// After one in which next to nothing was, as much; then, one by one.
	w.advance(50 * time.Millisecond)
	w.takes(c)
	wantCosts(t, []int64{w.last()[0].Cost}, 2)
	w.advance(100 * time.Millisecond)
	w.takes(c)
	wantCosts(t, []int64{w.last()[0].Cost}, 1)
}

func wantCosts(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the store was asked for %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("the store was asked for %v, want %v", got, want)
		}
	}
}

// The decision of a leased take tells the lease's own tokens, and when the bucket is as good as new as the store said it.
func TestLeasedDecision(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", "10/s burst 100 lease 50ms", 1)
	var fetched tidegate.Decision
	admitted := int64(0)
	for len(w.asked) == 0 || w.last()[0].Cost != 11 {
		fetched = w.takes(c)[0]
		admitted++
	}
	if fetched.Source != tidegate.SourceStore || !fetched.Allowed || fetched.Remaining != 100-admitted-10 {
		t.Fatalf("%+v after %d takes: want what remains after the slice", fetched, admitted)
	}
	for i := range 10 {
		w.advance(time.Millisecond + time.Nanosecond)
		want := tidegate.Decision{
			Allowed: true, Source: tidegate.SourceLease, Limit: 100, Remaining: int64(9 - i), Rule: "rule",
			ResetAfter: fetched.ResetAfter - time.Duration(i+1)*time.Millisecond,
		}
		if got := w.takes(c)[0]; got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}

// A lease ends a lifetime after it was sent for, to the nanosecond, on the way to and from the store included.
func TestLifetimeCountsFromSending(t *testing.T) {
	for _, test := range []struct {
		way, since time.Duration
		want       tidegate.Source
	}{
		{0, 50*time.Millisecond - 1, tidegate.SourceLease},
		{0, 50 * time.Millisecond, tidegate.SourceStore},
		{20 * time.Millisecond, 30*time.Millisecond - 1, tidegate.SourceLease},
		{20 * time.Millisecond, 30 * time.Millisecond, tidegate.SourceStore},
		{50 * time.Millisecond, 0, tidegate.SourceStore},
		{time.Second, 0, tidegate.SourceStore},
	} {
		w := newWorld(t)
		c := charge(t, "k", flat, 1)
		w.takes(c)
		w.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			w.advance(test.way / 2)
			ds, err := w.store.Take(ctx, charges, dst)
			w.advance(test.way / 2)
			return ds, err
		}
		w.takes(c)
		if n := w.last()[0].Cost; n != 2 {
			t.Fatalf("asked for %d", n)
		}
		w.take = w.store.Take
		w.advance(test.since)
		if d := w.takes(c)[0]; d.Source != test.want {
			t.Errorf("%v on the way and %v since: %+v, want it from %v", test.way, test.since, d, test.want)
		}
	}
}

// Nothing is taken ahead of a bucket that did not have it when the store last said, and a slice refuses nobody.
func TestSliceRefusesNobody(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", "1/day burst 20 lease 50ms", 1)
	admitted := int64(0)
	for range 30 {
		if w.takes(c)[0].Allowed {
			admitted++
		}
	}
	if admitted != 20 {
		t.Errorf("%d of 20 were admitted", admitted)
	}
	w.balance(c, admitted)

	// The store has less than it last said: the plain take decides, and the next one is plain.
	w = newWorld(t)
	w.grow(c, 1)
	w.takes(c)
	others := c
	others.Cost = w.storePeek(c).Remaining - 1
	if _, err := w.store.Take(context.Background(), []tidegate.Charge{others}, nil); err != nil {
		t.Fatal(err)
	}
	n := len(w.asked)
	if d := w.takes(c)[0]; !d.Allowed || d.Source != tidegate.SourceStore {
		t.Errorf("the last token: %+v", d)
	}
	if len(w.asked) != n+2 || w.asked[n][0].Cost <= 1 || w.asked[n+1][0].Cost != 1 {
		t.Errorf("asked %+v", w.asked[n:])
	}
	if d := w.takes(c)[0]; d.Allowed || d.Source != tidegate.SourceStore || len(w.asked) != n+3 {
		t.Errorf("one more: %+v, asked %+v", d, w.asked[n:])
	}
}

// storePeek peeks at the store itself.
func (w *world) storePeek(c tidegate.Charge) tidegate.Decision {
	w.tb.Helper()
	c.Cost = 0
	ds, err := w.store.Take(context.Background(), []tidegate.Charge{c}, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return ds[0]
}

// What never uses leases goes to the store as it is, though there is a lease that would do.
func TestNeverLeased(t *testing.T) {
	with := func(change func(c *tidegate.Charge)) []tidegate.Charge {
		c := charge(t, "k", flat, 1)
		change(&c)
		return []tidegate.Charge{c}
	}
	plain := charge(t, "k", flat, 1)
	window := charge(t, "other", "10/min fixed-window", 1)
	nothing := charge(t, "other", "unlimited", 1)
	unleased := charge(t, "other", "100/s", 1)
	for name, charges := range map[string][]tidegate.Charge{
		"a peek":                  with(func(c *tidegate.Charge) { c.Cost = 0 }),
		"a refund":                with(func(c *tidegate.Charge) { c.Cost = -1 }),
		"a wait":                  with(func(c *tidegate.Charge) { c.MaxWait = time.Second }),
		"a reservation":           with(func(c *tidegate.Charge) { c.ID = "id" }),
		"more than there is":      with(func(c *tidegate.Charge) { c.Cost = 200 }),
		"beside a window":         {plain, window},
		"beside no limit":         {plain, nothing},
		"beside one unleased":     {plain, unleased},
		"one bucket twice":        {plain, plain},
		"beside a bucket unknown": {plain, charge(t, "new", flat, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.grow(plain, 20)
			n, before := len(w.asked), w.layer.Stats()
			d := w.takes(charges...)
			if len(w.asked) != n+1 || len(w.last()) != len(charges) {
				t.Fatalf("asked %+v", w.asked[n:])
			}
			for i := range charges {
				if d[i].Source == tidegate.SourceLease {
					t.Errorf("%+v", d[i])
				}
				if got := w.last()[i].Cost; got != charges[i].Cost && name != "more than there is" {
					t.Errorf("asked for %d instead of %d", got, charges[i].Cost)
				}
			}
			if s := w.layer.Stats(); s.Spent != before.Spent || s.Lapsed != before.Lapsed && name != "more than there is" {
				t.Errorf("%+v, before %+v", s, before)
			}
			if name == "more than there is" {
				return
			}
			if d := w.takes(plain)[0]; d.Source != tidegate.SourceLease {
				t.Errorf("after it: %+v: the lease is gone", d)
			}
		})
	}
}

// Several charges: all from leases, or the store decides all, and brings more for all that have too little.
func TestSeveralCharges(t *testing.T) {
	w := newWorld(t)
	user, tenant := charge(t, "user", flat, 1), charge(t, "tenant", flat, 2)
	tenant.Rule = "another"
	ofUser, ofTenant := int64(0), int64(0)
	leased := 0
	for range 60 {
		n := len(w.asked)
		ds := w.takes(user, tenant)
		ofUser, ofTenant = ofUser+1, ofTenant+2
		if ds[0].Source != ds[1].Source || !ds[0].Allowed || !ds[1].Allowed || ds[0].Rule != "rule" || ds[1].Rule != "another" {
			t.Fatalf("%+v", ds)
		}
		if ds[0].Source == tidegate.SourceLease {
			leased++
			if len(w.asked) > n {
				t.Fatal("asked for what was leased")
			}
		}
	}
	if leased < 40 {
		t.Errorf("%d of 60 were decided from leases", leased)
	}
	if s := w.layer.Stats(); s.Takes != int64(leased) || s.Spent != 3*int64(leased) {
		t.Errorf("%+v after %d takes", s, leased)
	}
	charged := func(c tidegate.Charge) int64 { return 1000 - w.storePeek(c).Remaining }
	s := w.layer.Stats()
	if n := charged(user) + charged(tenant); n != ofUser+ofTenant+s.Taken-s.Spent {
		t.Errorf("%d were charged, %d and %d admitted: %+v", n, ofUser, ofTenant, s)
	}

	// One of them has enough: the other alone is fetched for.
	w.grow(tenant, 30)
	for w.layer.cellOf(&user).left > 0 {
		w.takes(user)
	}
	before := w.layer.cellOf(&tenant).left
	ds := w.takes(user, tenant)
	if got := w.last(); ds[0].Source != tidegate.SourceStore || got[0].Cost < 2 || got[1].Cost != 2 {
		t.Errorf("%+v: asked for %+v", ds, got)
	}
	if left := w.layer.cellOf(&tenant).left; left != before {
		t.Errorf("%d left of %d", left, before)
	}

	// One of them is empty: nothing is taken ahead of the other, which would lapse.
	empty := charge(t, "empty", "1/day burst 10 lease 50ms", 1)
	for passes := true; passes; {
		passes = w.takes(empty)[0].Allowed
	}
	for range 5 {
		if ds := w.takes(empty, charge(t, "fresh", flat, 1)); ds[0].Allowed || !ds[1].Allowed {
			t.Fatalf("%+v", ds)
		}
	}
	if got := w.last(); got[0].Cost != 1 || got[1].Cost != 1 {
		t.Errorf("asked for %+v", got)
	}
}

// cellOf returns the cell of a charge's bucket.
func (l *Layer) cellOf(c *tidegate.Charge) *cell {
	sh := &l.shards[l.index(c)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.cells[bucket{c.Rule, c.Key}]
}

// A charge in shadow spends like any other. Where a slice has no room, it is asked once more for itself.
func TestShadow(t *testing.T) {
	w := newWorld(t)
	enforced, shadow := charge(t, "a", flat, 1), charge(t, "b", "1/day burst 100 lease 50ms", 1)
	shadow.Shadow = true
	leased, admitted := 0, 0
	for range 150 {
		ds := w.takes(enforced, shadow)
		if !ds[0].Allowed {
			t.Fatalf("%+v", ds)
		}
		if ds[0].Source == tidegate.SourceLease {
			leased++
		}
		if ds[1].Allowed {
			admitted++
		}
	}
	if leased < 50 || admitted != 100 {
		t.Errorf("%d were decided from leases, %d of 100 admitted in shadow", leased, admitted)
	}

	w = newWorld(t)
	w.grow(enforced, 3)
	for range 10 {
		w.takes(shadow)
	}
	for w.layer.cellOf(&shadow).left > 0 {
		w.takes(shadow)
	}
	others := shadow
	others.Cost, others.Shadow = w.storePeek(shadow).Remaining-1, false
	if _, err := w.store.Take(context.Background(), []tidegate.Charge{others}, nil); err != nil {
		t.Fatal(err)
	}
	if ds := w.takes(enforced, shadow); !ds[0].Allowed || !ds[1].Allowed || ds[1].Remaining != 0 {
		t.Errorf("%+v: the last token is free", ds)
	}
}

// A newer version, or another limit, ends the lease at once; an older one is the store's to decide and leaves it alone.
func TestChangeOfLimit(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *tidegate.Charge)
		want   tidegate.Source // of the next take of the old charge
	}{
		"the same by another pointer": {func(c *tidegate.Charge) { c.Limit = limit(t, flat) }, tidegate.SourceLease},
		"a newer version":             {func(c *tidegate.Charge) { c.Version = 8 }, tidegate.SourceStore},
		"a newer limit":               {func(c *tidegate.Charge) { c.Version, c.Limit = 8, limit(t, "1/day burst 500 lease 50ms") }, tidegate.SourceStore},
		"a limit without a lease":     {func(c *tidegate.Charge) { c.Version, c.Limit = 8, limit(t, "1/day burst 500") }, tidegate.SourceStore},
		"another limit":               {func(c *tidegate.Charge) { c.Limit = limit(t, "1/day burst 500 lease 50ms") }, tidegate.SourceStore},
		"an older version":            {func(c *tidegate.Charge) { c.Version, c.Limit = 6, limit(t, "1/day burst 500 lease 50ms") }, tidegate.SourceLease},
		"an older one without":        {func(c *tidegate.Charge) { c.Version, c.Limit = 6, limit(t, "1/day burst 500") }, tidegate.SourceLease},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := charge(t, "k", flat, 1)
			c.Version = 7
			w.grow(c, 20)
			changed := c
			test.change(&changed)
			d := w.takes(changed)[0]
			if leased := d.Source == tidegate.SourceLease; leased != (name == "the same by another pointer") {
				t.Errorf("the changed one: %+v", d)
			}
			lapsed := w.layer.Stats().Lapsed
			if d := w.takes(c)[0]; d.Source != test.want || (lapsed > 0) != (test.want == tidegate.SourceStore) {
				t.Errorf("the old one: %+v, %d have lapsed", d, lapsed)
			}
		})
	}
}

// Where the store decides under a newer limit than this process knows, nothing is taken ahead.
func TestLimitChangedElsewhere(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	w.grow(c, 0)
	newer := charge(t, "k", "1/day burst 500 lease 50ms", 1)
	newer.Version = 9
	if _, err := w.store.Take(context.Background(), []tidegate.Charge{newer}, nil); err != nil {
		t.Fatal(err)
	}
	w.takes(c) // fetches once more, and is told
	for leased := true; leased; {
		leased = w.takes(c)[0].Source == tidegate.SourceLease
	}
	for range 5 {
		if d := w.takes(c)[0]; d.Source != tidegate.SourceStore || d.Limit != 500 || w.last()[0].Cost != 1 {
			t.Fatalf("%+v: asked for %d", d, w.last()[0].Cost)
		}
	}
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	w.grow(c, 20)
	w.layer.Reset([]tidegate.Charge{c})
	if d := w.takes(c)[0]; d.Source != tidegate.SourceStore || w.last()[0].Cost != 1 {
		t.Errorf("%+v: asked for %d", d, w.last()[0].Cost)
	}
	if s := w.layer.Stats(); s.Lapsed != 20 {
		t.Errorf("%+v", s)
	}
}

// What lapses is told, whether anybody asks for it or not.
func TestLapsedIsCounted(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	w.grow(c, 20)
	w.advance(50 * time.Millisecond)
	w.layer.sweep()
	if s := w.layer.Stats(); s.Lapsed != 20 || s.Lapsed != s.Taken-s.Spent {
		t.Errorf("%+v", s)
	}

	// Too little for what is asked lapses when more is brought.
	w = newWorld(t)
	w.grow(c, 3)
	more := c
	more.Cost = 5
	w.takes(more)
	if s := w.layer.Stats(); s.Lapsed != 3 {
		t.Errorf("%+v", s)
	}
}

// Whoever stands in for the store brings no tokens, as its word binds nobody.
func TestFallbackBringsNothing(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	w.takes(c)
	w.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
		ds, err := w.store.Take(ctx, charges, dst)
		ds[len(dst)].Source = tidegate.SourceFallback
		return ds, err
	}
	if d := w.takes(c)[0]; d.Source != tidegate.SourceFallback || w.last()[0].Cost != 2 {
		t.Errorf("%+v: asked for %d", d, w.last()[0].Cost)
	}
	if d := w.takes(c)[0]; d.Source != tidegate.SourceFallback {
		t.Errorf("%+v: spent what nobody gave", d)
	}
}
