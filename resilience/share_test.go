package resilience

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestScale(t *testing.T) {
	for _, c := range []struct {
		limit string
		share int64
		want  string
	}{
		{"600/s burst 100", 333, "999/5s burst 33"},
		{"600/s burst 100", 1000, "600/s burst 100"},
		{"600/s burst 100", 500, "300/s burst 50"},
		{"1000/day", 200, "200/day"},
		{"7/day", 333, "2331/1000day burst 2"},
		{"1/s", 1, "1/1000s"},
		{"10/s burst 2", 100, "1/s"}, // at least one token
		{"100/s warmup 8s burst 100", 500, "50/s burst 50"},
		{"10000/s burst 1000 shards 8 lease 50ms", 500, "5000/s burst 500"},
		{"10/s leaky-bucket queue 5", 500, "5/s leaky-bucket queue 2"},
		{"100/min fixed-window", 333, "33/min fixed-window"},
		{"2/day tz Europe/Vienna fixed-window", 333, "1/day tz Europe/Vienna fixed-window"},
		{"100/min sliding-window slices 6", 250, "25/min sliding-window slices 6"},
		{"100/min sliding-log", 250, "25/min sliding-log"},
		{"10 concurrent ttl 5s", 333, "3 concurrent ttl 5s"},
		{"2 concurrent", 333, "1 concurrent"},
		{"unlimited", 333, "unlimited"},
		{"none", 333, "none"},
		{"3/18000day", 500, "1/18000day"}, // two periods would be too long
		{"1/18000day", 333, "1/18250day"},
	} {
		got := scale(limit(t, c.limit).Normalize(), c.share)
		if want := limit(t, c.want).Normalize(); !same(got, want) {
			t.Errorf("%s × %d: %+v, want %+v", c.limit, c.share, got, want)
		}
	}
}

// same reports whether two limits are of one rate and alike in all else.
func same(a, b tidegate.Limit) bool {
	x, y := big.NewRat(a.Rate, int64(max(1, a.Per))), big.NewRat(b.Rate, int64(max(1, b.Per)))
	a.Rate, b.Rate, a.Per, b.Per = 0, 0, 0, 0
	return a == b && x.Cmp(y) == 0
}

// A part of any limit is valid, and never more than the part.
func TestScaleNeverExceeds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		l := tidegate.Limit{Rate: 1 + r.Int64N(1<<r.IntN(50)), Per: time.Duration(1+r.Int64N(1<<r.IntN(43))) * time.Millisecond}
		switch r.IntN(4) {
		case 0:
			l.Algorithm, l.Queue = tidegate.LeakyBucket, r.Int64N(1000)
		case 1:
			l.Algorithm = tidegate.FixedWindow
		default:
			l.Burst = 1 + r.Int64N(1<<r.IntN(40))
		}
		if l.Validate() != nil {
			continue
		}
		share := 1 + r.Int64N(whole)
		got := scale(l.Normalize(), share)
		if err := got.Validate(); err != nil {
			t.Fatalf("%v × %d: %+v: %v (seed %d)", l, share, got, err, seed)
		}
		part := new(big.Rat).Mul(big.NewRat(l.Rate, int64(l.Per)), big.NewRat(share, whole))
		least := big.NewRat(1, int64(maxPer))
		if l.Algorithm == tidegate.FixedWindow {
			least = big.NewRat(1, int64(l.Per))
		}
		if rate := big.NewRat(got.Rate, int64(got.Per)); rate.Cmp(part) > 0 && rate.Cmp(least) > 0 {
			t.Fatalf("%v × %d: the rate of %+v is more (seed %d)", l, share, got, seed)
		}
		if c := got.Capacity(); c > max(1, l.Capacity()*share/whole+1) {
			t.Fatalf("%v × %d: the capacity of %+v is more (seed %d)", l, share, got, seed)
		}
	}
}

func TestShareBy(t *testing.T) {
	for _, c := range []struct{ beaten, own, total, want int64 }{
		{1, 0, 0, 1000},
		{3, 0, 0, 333}, // without demand
		{3, 0, 100, 66},
		{3, 100, 100, 866},
		{3, 60, 100, 546},
		{3, 25, 100, 266},
		{3, 15, 100, 186},
		{0, 0, 0, 1000},
		{2, 1 << 60, 1 << 60, 900}, // whatever it is
		{2, 5, 3, 900},
	} {
		table := &tidegate.Table{Beaten: c.beaten, Own: map[string]int64{"api": c.own}, Total: map[string]int64{"api": c.total}}
		if got := shareBy(table, "api"); got != c.want {
			t.Errorf("%d of %d, of %d replicas: %d, want %d", c.own, c.total, c.beaten, got, c.want)
		}
	}
}

// losses are beats of one replica that its way loses.
type losses struct {
	left atomic.Int64 // how many are yet to be lost
	last atomic.Int64 // ns: when the last was
}

// begin loses the next beats as a fault does.
func (l *losses) begin(w *way, beats int64, f fault) {
	l.left.Store(beats)
	w.set(func(ctx context.Context, op string, do func() error) error {
		if op != "beat" {
			return do()
		}
		l.last.Store(time.Now().UnixNano())
		if l.left.Add(-1) == 0 {
			w.set(nil)
		}
		return f(ctx, op, do)
	})
}

// over reports whether none is to be lost, nor has been for so long.
func (l *losses) over(d time.Duration) bool {
	return l.left.Load() == 0 && time.Now().UnixNano()-l.last.Load() >= int64(d)
}

// What is lost while shares have to add up.
const (
	noBeats = iota
	// oneBeat: one beat of a replica or its answer, and no other of the same replica before it has been tried again.
	oneBeat
	// oneSecond: two in a row, so that the replica misses a second; and none of anybody while tables of before are in use.
	oneSecond
)

// At every moment the shares of all replicas add up to at most the whole, however the demand moves and whoever leaves, and
// though beats or their answers are lost.
func TestSharesAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct{ n, lost, steps int }{
		{1, noBeats, 2000}, {2, noBeats, 2000}, {3, noBeats, 2000}, {5, noBeats, 2000}, {17, noBeats, 2000},
		{2, oneBeat, 4000}, {3, oneBeat, 4000}, {5, oneBeat, 4000},
		{2, oneSecond, 4000}, {3, oneSecond, 4000}, {5, oneSecond, 4000},
	} {
		synctest.Test(t, func(t *testing.T) {
			shareOut(t, c.n, c.lost, c.steps, rand.New(rand.NewPCG(seed, uint64(8*c.n+c.lost))))
		})
	}
}

// shareOut lets n replicas take at random, and wants their shares to add up after each step.
func shareOut(t *testing.T, n, lose, steps int, random *rand.Rand) {
	t.Helper()
	rules := []string{"a", "b", "c", "unused"}
	sv := newServer(t)
	cfg := Config{}
	if lose == oneSecond {
		// It beats 0.075 to 0.4 s into a second. Two that hang are 0.95 to 1.15 s until the third: in the next second, always.
		cfg.Timeout = 375 * time.Millisecond
	}
	rs := newFleet(t, sv, n, cfg)
	time.Sleep(3 * time.Second) // all have seen two tables
	first := time.Now().Unix()
	here, worst := len(rs), int64(0)
	ls := make([]*losses, n)
	for i := range ls {
		ls[i] = &losses{}
	}
	for step := range steps {
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		i := random.IntN(here)
		rule := rules[random.IntN(3)]
		rs[i].take(charge(t, rule, "k", "100000/s", 1+random.Int64N(1+random.Int64N(1000))))
		switch {
		case step == steps*3/4 && here > 2 && lose != oneSecond:
			here--
			_ = rs[here].Close()
			time.Sleep(3 * time.Second)
		case lose == oneBeat && random.IntN(50) == 0 && ls[i].over(time.Second):
			ls[i].begin(rs[i].way, 1, []fault{lost, hangs, fails("no")}[random.IntN(3)])
		case lose == oneSecond && random.IntN(50) == 0 &&
			!slices.ContainsFunc(ls, func(l *losses) bool { return !l.over((maxTables + 1) * time.Second) }):
			ls[i].begin(rs[i].way, 2, hangs)
		}
		for i, r := range rs[:here] {
			if last := (*r.tables.Load())[0].Second; lose != oneSecond && last < time.Now().Unix()-2 {
				t.Fatalf("%d replicas, loss %d, step %d: replica %d has missed the table of the second after %d", n, lose, step, i, last)
			}
		}
		for _, rule := range rules {
			sum := int64(0)
			for _, r := range rs[:here] {
				sum += r.share(rule, tidegate.FailurePolicy{})
			}
			worst = max(worst, sum)
			if sum > whole {
				t.Fatalf("%d replicas, loss %d, step %d: the shares of %s add up to %d", n, lose, step, rule, sum)
			}
		}
	}
	if worst < whole-int64(n) {
		t.Errorf("%d replicas, loss %d: at most %d of the whole is ever used", n, lose, worst)
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	missed := 0
	for s := first; s < time.Now().Unix(); s++ {
		if sv.told[s].beaten < here {
			missed++
		}
	}
	beats := slices.ContainsFunc(ls, func(l *losses) bool { return l.last.Load() > 0 })
	if beats != (lose != noBeats) || (missed > 0) != (lose == oneSecond) {
		t.Errorf("%d replicas, loss %d: beats were lost: %t; seconds were missed: %d", n, lose, beats, missed)
	}
}

// A beat whose answer is lost is tried again within its second, unless the deadline is too long; and phases are spread.
func TestPhase(t *testing.T) {
	for _, c := range []struct{ timeout, last time.Duration }{
		{50 * time.Millisecond, 700 * time.Millisecond},
		{375 * time.Millisecond, 375 * time.Millisecond},
		{10 * time.Second, 300 * time.Millisecond},
	} {
		lo, hi := time.Hour, time.Duration(0)
		for range 10_000 {
			s := &Store{cfg: Config{Timeout: c.timeout}}
			s.beginBeating()
			lo, hi = min(lo, s.beats.phase), max(hi, s.beats.phase)
		}
		if lo < 100*time.Millisecond || lo > 110*time.Millisecond || hi > c.last || hi < c.last-10*time.Millisecond {
			t.Errorf("a timeout of %v: phases are from %v to %v, want 100ms to %v", c.timeout, lo, hi, c.last)
		}
	}
}

// Two tables are used, and more until the latest two lack nobody and no second between them: up to as many as a replica can
// miss before it has expired.
func TestTables(t *testing.T) {
	for story, want := range map[string]string{
		"2/2 2/2 2/2":             "3 2",
		"2/2 2/2 1/2":             "3 2 1",
		"2/2 2/2 1/2 2/2":         "4 3 2 1",
		"2/2 2/2 1/2 2/2 2/2":     "5 4",
		"1/2 1/2 1/2 1/2 1/2 1/2": "6 5 4 3 2",
		"1/2 2/2 2/2":             "3 2",
		"2/2 2/2 - 2/2":           "4 2 1", // a second that this replica missed
		"2/2 2/2 - 2/2 2/2":       "5 4",
		"1/1":                     "1",
	} {
		var ts tables
		for i, word := range strings.Fields(story) {
			if word == "-" {
				continue
			}
			t := &tidegate.Table{Second: int64(i + 1)}
			_, _ = fmt.Sscanf(word, "%d/%d", &t.Beaten, &t.Replicas)
			ts = ts.with(t)
		}
		got := ""
		for _, t := range ts {
			got += fmt.Sprint(t.Second, " ")
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %s, want %s", story, got, want)
		}
	}
}

// Shares follow the demand: 60, 25 and 15 % of it.
func TestSharesFollowDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newFleet(t, newServer(t), 3, Config{})
		want := []int64{546, 266, 186}
		for range 400 {
			for i, n := range []int64{60, 25, 15} {
				rs[i].take(charge(t, "api", "k", "100000/s", n))
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i, r := range rs {
			if got := r.share("api", tidegate.FailurePolicy{}); got < want[i]-40 || got > want[i]+40 {
				t.Errorf("replica %d: %d, want about %d", i, got, want[i])
			}
			if got := r.share("api", tidegate.FailurePolicy{Share: 0.8}); got != 800 {
				t.Errorf("a fixed share of 0.8: %d", got)
			}
		}
	})
}

// A heartbeat a second, each in a second of its own, and a bounded number of rules.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 4, Config{})
		time.Sleep(time.Second)
		for i := range 3000 {
			rs[0].take(charge(t, fmt.Sprint("rule", i), "k", "1000000/s", int64(1+i%1000)))
		}
		sv.mu.Lock()
		before := sv.beats
		sv.mu.Unlock()
		time.Sleep(60 * time.Second)
		sv.mu.Lock()
		defer sv.mu.Unlock()
		if n := sv.beats - before; n < 4*59 || n > 4*61 {
			t.Errorf("%d beats of 4 replicas in a minute", n)
		}
		missed := 0
		now := time.Now().Unix()
		for s := now - 50; s < now; s++ {
			told := sv.told[s]
			if told.beaten < 4 {
				missed++
			}
			if told.rules > toldRules {
				t.Errorf("%d rules", told.rules)
			}
		}
		if missed > 0 {
			t.Errorf("%d seconds without a beat of all", missed)
		}
		if n := len(*rs[0].demand.rules.Load()); n != maxRules {
			t.Errorf("%d rules are counted", n)
		}
	})
}
