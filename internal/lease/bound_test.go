package lease

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// admission is tokens admitted at a moment: those of a lease when they were spent, others when the store decided.
type admission struct {
	at     time.Time
	tokens int64
	leased bool
}

// excess returns by how many tokens the admissions exceed B + ⌊L·(t + lifetime)/P⌋ in the worst interval between any two
// of them, in exact numbers; not above 0 where the bound holds. It goes through them once: with n(i) tokens admitted up
// to the i-th, n(j) - n(i-1) is to be within the bound for all i ≤ j.
func excess(as []admission, l *tidegate.Limit, lifetime time.Duration) int64 {
	slices.SortStableFunc(as, func(a, b admission) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	per, rate := int64(l.Per/time.Microsecond), l.Rate
	least, worst, n := int64(1)<<62, -(int64(1) << 62), int64(0)
	for _, a := range as {
		us := a.at.Sub(as[0].at).Microseconds()
		least = min(least, n*per-rate*us)
		n += a.tokens
		worst = max(worst, n*per-rate*us-least)
	}
	over := worst - l.Burst*per - rate*int64(lifetime/time.Microsecond) // in units of which a token is per
	if over > 0 {
		return (over + per - 1) / per
	}
	return over / per
}

// decidedAt is where a caller finds the moment at which the store decided its take.
type decidedAt struct{}

// fleet is many processes, each with a layer, before one store, which they reach after a while and are answered by after
// a while: mostly short ones, now and then longer than a lease lives, as when the network or the process pauses.
type fleet struct {
	limit *tidegate.Limit
	store *memstore.Store
	rand  *rand.Rand
	begin time.Time
	quiet []time.Duration // of each cycle, from when all have fetched until all ask
	mu    sync.Mutex
	as    []admission
	stats Stats // of layers that have died
}

// between returns a random while up to most, in whole microseconds.
func (f *fleet) between(most time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rand.Int64N(int64(most/time.Microsecond)+1)) * time.Microsecond
}

func (f *fleet) chance(one int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(one) == 0
}

// pause is how long a message is on its way.
func (f *fleet) pause() time.Duration {
	if f.chance(20) {
		return f.between(3 * f.limit.Lease)
	}
	return f.between(f.limit.Lease / 20)
}

func (f *fleet) take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	time.Sleep(f.pause())
	dst, err := f.store.Take(ctx, charges, dst)
	if at, ok := ctx.Value(decidedAt{}).(*time.Time); ok {
		*at = time.Now()
	}
	life := f.limit.Lease
	// In every other cycle the answers are slow while all fetch, so that what they bring has lapsed before it is there.
	if into := time.Since(f.begin) % (2 * cycle * life); into > cycle*life+life*3/2 && into < cycle*life+life*2 {
		time.Sleep(life*3/2 + f.between(life/4))
	} else {
		time.Sleep(f.pause())
	}
	return dst, err
}

// process does the same again and again until the end, beginning a cycle with all others: it uses a little less than comes back,
// so that it has something to take ahead when the bucket is full again; it asks once, which fetches; and when all others do,
// after less than a lifetime or more, it asks until it is refused. No other order of events brings more together.
func (f *fleet) process(t *testing.T, end time.Time) {
	t.Helper()
	var layer *Layer
	die := func() {
		layer.Close()
		s := layer.Stats()
		f.mu.Lock()
		f.stats.Taken, f.stats.Spent, f.stats.Takes = f.stats.Taken+s.Taken, f.stats.Spent+s.Spent, f.stats.Takes+s.Takes
		f.mu.Unlock()
	}
	life := f.limit.Lease
	use := f.limit.Rate * int64(life) / int64(f.limit.Per) * 9 / 5 / processes // comes back in 1.8 lifetimes
	for begin := time.Now(); begin.Before(end); begin = begin.Add(cycle * life) {
		if layer == nil || f.chance(20) { // it dies with what it has, and begins anew
			if layer != nil {
				die()
			}
			layer = New(Config{Take: f.take})
		}
		time.Sleep(time.Until(begin) + f.between(life/20))
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				for used := int64(0); used < use/3 && time.Since(begin) < life/2; {
					cost := 1 + int64(f.between(9*time.Microsecond)/time.Microsecond)
					f.ask(t, layer, cost)
					used += cost
				}
			})
		}
		callers.Wait()
		time.Sleep(max(0, time.Until(begin.Add(life*18/10+f.between(life/10)))))
		f.ask(t, layer, 1)
		n := int(begin.Sub(f.begin) / (cycle * life))
		time.Sleep(max(0, time.Until(begin.Add(life*19/10+f.quiet[n]))))
		for range 3 {
			callers.Go(func() {
				for passes := true; passes && time.Since(begin) < cycle*life/2; {
					passes = f.ask(t, layer, 1+int64(f.between(9*time.Microsecond)/time.Microsecond))
				}
			})
		}
		callers.Wait()
	}
	die()
}

// ask takes once, and remembers what was admitted and when.
func (f *fleet) ask(t *testing.T, layer *Layer, cost int64) bool {
	t.Helper()
	c := []tidegate.Charge{{Rule: "rule", Key: "key", Limit: f.limit, Cost: cost}}
	var at time.Time
	ds, err := layer.Take(context.WithValue(t.Context(), decidedAt{}, &at), c, nil)
	if err != nil {
		t.Error(err)
		return false
	}
	if !ds[0].Allowed {
		return false
	}
	a := admission{at: at, tokens: cost}
	if ds[0].Source == tidegate.SourceLease {
		a.at, a.leased = time.Now(), true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.as = append(f.as, a)
	return true
}

const (
	processes = 10
	cycle     = 20 // lifetimes
)

// TestBound: many processes, messages that take their time, deaths and pauses; in no interval is more admitted than
// B + ⌊L·(t + lifetime)/P⌋, and in some it is more than without leases. To see it fail, count the lifetime from the answer,
// in land.
func TestBound(t *testing.T) {
	seed := rand.Uint64()
	leased, beyond := 0, int64(0)
	for i, text := range []string{
		"20000/s burst 2000 lease 50ms",
		"200000/s burst 4000 lease 10ms",
		"7777/777ms burst 700 lease 33333us",
		"30000/min burst 1200 lease 1s",
	} {
		for round := range uint64(2) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{limit: limit(t, text), rand: rand.New(rand.NewPCG(seed, uint64(i)<<32+round))}
				f.store = memstore.New(&memstore.Config{Now: time.Now, SweepEvery: -1})
				defer f.store.Close()
				f.begin = time.Now()
				for range 10 { // until just before what was fetched lapses, or until just after what was slow is there
					f.quiet = append(f.quiet, f.between(f.limit.Lease*6/5), f.limit.Lease*19/10+f.between(f.limit.Lease/2))
				}
				end := f.begin.Add(time.Duration(len(f.quiet)) * cycle * f.limit.Lease)
				var all sync.WaitGroup
				for range processes {
					all.Go(func() { f.process(t, end) })
				}
				all.Wait()
				if over := excess(f.as, f.limit, f.limit.Lease); over > 0 {
					t.Errorf("%s: %d more than the bound in some interval (seed %d)", text, over, seed)
				}
				for _, a := range f.as {
					if a.leased {
						leased++
					}
				}
				beyond = max(beyond, excess(f.as, f.limit, 0))
				t.Logf("%s: %d admissions, %+v; the worst is %d below the bound, of which the lifetime is %d", text, len(f.as), f.stats,
					-excess(f.as, f.limit, f.limit.Lease), f.limit.Rate*int64(f.limit.Lease)/int64(f.limit.Per))
			})
		}
	}
	if leased < 1000 {
		t.Errorf("%d takes were leased (seed %d)", leased, seed)
	}
	if beyond <= 0 {
		t.Errorf("never more than without leases: the worst was not tried (seed %d)", seed)
	}
}

// The check of the bound is itself checked: it finds the one interval in which there is a token too many.
func TestExcess(t *testing.T) {
	l := limit(t, "1000/s burst 100 lease 50ms")
	base := time.Unix(4_000_000_000, 0)
	as := func(last int64) []admission {
		return []admission{
			{at: base, tokens: 1},
			{at: base.Add(time.Hour), tokens: 100},
			{at: base.Add(time.Hour), tokens: 30},
			{at: base.Add(time.Hour + 10500*time.Microsecond), tokens: last},
			{at: base.Add(2 * time.Hour), tokens: 100},
		}
	}
	if over := excess(as(30), l, l.Lease); over > 0 { // 160 in 10.5 ms: 100 + ⌊60.5⌋
		t.Errorf("%d too many", over)
	}
	if over := excess(as(31), l, l.Lease); over != 1 {
		t.Errorf("%d too many, want 1", over)
	}
}
