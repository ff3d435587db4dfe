package resilience

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
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

// At every moment the shares of all replicas add up to at most the whole, however the demand moves and whoever leaves; or to
// little more, where beats or their answers are lost now and then, and not all know a table that all are in.
func TestSharesAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rules := []string{"a", "b", "c", "unused"}
	for _, n := range []int{1, 2, 3, 5, 17, -2, -3, -5} {
		lossy := n < 0
		n = max(n, -n)
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			sv := newServer(t)
			rs := newFleet(t, sv, n, Config{})
			time.Sleep(3 * time.Second) // all have seen two tables
			here, worst := len(rs), int64(0)
			var beats atomic.Int64
			for step := range 2000 {
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				r := rs[random.IntN(here)]
				rule := rules[random.IntN(3)]
				r.take(charge(t, rule, "k", "100000/s", 1+random.Int64N(1+random.Int64N(1000))))
				switch {
				case step == 1500 && here > 2:
					here--
					_ = rs[here].Close()
					time.Sleep(3 * time.Second)
				case lossy && random.IntN(200) == 0: // one beat is lost, or its answer
					f := []fault{lost, fails("no")}[random.IntN(2)]
					var once fault = func(ctx context.Context, op string, do func() error) error {
						if op != "beat" {
							return do()
						}
						r.way.set(nil)
						beats.Add(1)
						return f(ctx, op, do)
					}
					r.way.set(once)
				}
				for _, rule := range rules {
					sum := int64(0)
					for _, r := range rs[:here] {
						sum += r.share(rule, tidegate.FailurePolicy{})
					}
					worst = max(worst, sum)
					if sum > whole && (!lossy || sum > whole*11/10) {
						t.Fatalf("%d replicas, step %d: the shares of %s add up to %d", n, step, rule, sum)
					}
				}
			}
			if lossy && beats.Load() == 0 {
				t.Error("no beat was lost")
			}
			if worst < whole-int64(n) {
				t.Errorf("%d replicas: at most %d of the whole is ever used", n, worst)
			}
		})
	}
}

// Two tables are used, and more while not all were in those: up to as many as a replica can miss before it has expired.
func TestTables(t *testing.T) {
	for story, want := range map[string]string{
		"2/2 2/2 2/2":             "3 2",
		"2/2 2/2 1/2":             "3 2 1",
		"2/2 2/2 1/2 2/2":         "4 3 2",
		"2/2 2/2 1/2 2/2 2/2":     "5 4",
		"1/2 1/2 1/2 1/2 1/2 1/2": "6 5 4 3 2",
		"1/1":                     "1",
	} {
		var ts tables
		for i, word := range strings.Fields(story) {
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
