package hotkeys

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConfig(t *testing.T) {
	if _, err := New(nil); err != nil {
		t.Error(err)
	}
	_, err := New(&Config{Window: time.Millisecond, Keys: -1, Rules: mostRules + 1})
	for _, want := range []string{"window of 1ms", "-1 keys", "65537 rules"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{})
		for range 10 {
			h.Observe("r", "busy", 1, true)
		}
		h.Observe("r", "dear", 500, true)
		for range 3 {
			h.Observe("r", "refused", 100, false)
		}
		h.Observe("s", "elsewhere", 1000, false)
		h.Observe("r", "peek", 0, true)
		h.Observe("r", "refund", -5, true)
		h.Observe("", "nowhere", 5, true)
		for _, c := range []struct {
			rule string
			n    int
			by   By
			want string
		}{
			{"r", 10, ByTraffic, "[{r dear 500 0} {r refused 300 0} {r busy 10 0}]"},
			{"r", 2, ByTraffic, "[{r dear 500 0} {r refused 300 0}]"},
			{"r", 10, ByRefusals, "[{r refused 3 0}]"},
			{"", 10, ByTraffic, "[{s elsewhere 1000 0} {r dear 500 0} {r refused 300 0} {r busy 10 0}]"},
			{"", 10, ByRefusals, "[{r refused 3 0} {s elsewhere 1 0}]"},
			{"unknown", 10, ByTraffic, "[]"},
			{"r", 0, ByTraffic, "[]"},
			{"r", 3, By(7), "[]"},
		} {
			if got := fmt.Sprint(h.Top(c.rule, c.n, c.by)); got != c.want {
				t.Errorf("top %d of %q by %d: %s, want %s", c.n, c.rule, c.by, got, c.want)
			}
		}
		if a, b := h.Total("r", ByTraffic), h.Total("", ByRefusals); a != 810 || b != 4 {
			t.Errorf("totals %v and %v", a, b)
		}
	})
}

func TestCostIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{})
		h.Observe("r", "absurd", math.MaxInt64, false)
		if got := h.Top("r", 1, ByTraffic)[0].Count; got != MaxCost {
			t.Errorf("counts %v", got)
		}
	})
}

// An even stream of r a second counts r × window, and what stops fades by e a window, until it is gone.
func TestFades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{Window: minute})
		for range 15 * 60 * 10 {
			h.Observe("r", "even", 1, true)
			time.Sleep(100 * time.Millisecond)
		}
		count := h.Top("r", 1, ByTraffic)[0].Count
		if math.Abs(count/600-1) > 0.02 {
			t.Errorf("10/s count %v, want 600", count)
		}
		time.Sleep(minute)
		if got := h.Top("r", 1, ByTraffic)[0].Count; math.Abs(got/count-1/math.E) > 0.01 {
			t.Errorf("%v after a minute, of %v", got, count)
		}
		h.Observe("r", "new", 250, true) // more than what is left of the other
		if got := keysOf(h.Top("r", 2, ByTraffic)); !slices.Equal(got, []string{"new", "even"}) {
			t.Errorf("%q", got)
		}
		time.Sleep(24 * time.Hour)
		if got := h.Top("r", 9, ByTraffic); len(got) != 0 || h.Total("", ByTraffic) > 1e-9 {
			t.Errorf("yesterday's keys are still there: %v", got)
		}
		h.Observe("r", "today", 1, true)
		if got := keysOf(h.Top("r", 9, ByTraffic)); !slices.Equal(got, []string{"today"}) {
			t.Errorf("%q", got)
		}
	})
}

// Weights are divided now and then; nothing shows it.
func TestRebase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{Window: time.Second})
		for range 200 {
			h.Observe("r", "steady", 100, true)
			time.Sleep(time.Second)
		}
		// 100 · (e^-1 + e^-2 + …)
		want := 100 / (math.E - 1)
		if got := h.Top("r", 1, ByTraffic)[0]; math.Abs(got.Count/want-1) > 0.03 || got.Error > 1e-6 {
			t.Errorf("%v, want %v", got, want)
		}
		if got := h.Total("r", ByTraffic); math.Abs(got/want-1) > 0.03 {
			t.Errorf("a total of %v, want %v", got, want)
		}
		p := &h.ruleFor("r", 0).by[ByTraffic].Load().parts[0]
		if p.weight > math.Exp(rebaseAfter/stepsPerWindow) {
			t.Errorf("weight %v", p.weight)
		}
	})
}

// The true count of each key that is reported lies within its bounds, and each key that must be reported is.
func TestBounds(t *testing.T) {
	for _, keys := range []int{8, 64, 256} {
		synctest.Test(t, func(t *testing.T) {
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 1))
			h := open(t, Config{Keys: keys, Window: time.Second})
			zipf := rand.NewZipf(rnd, 1.05, 1, 50_000)
			type seen struct {
				at     float64 // windows
				weight float64
			}
			truth := map[string][]seen{}
			start := time.Now()
			for n := range 100_000 {
				key := fmt.Sprintf("k%d", zipf.Uint64())
				cost := 1 + rnd.Int64N(3)
				h.Observe("r", key, cost, true)
				truth[key] = append(truth[key], seen{time.Since(start).Seconds(), float64(cost)})
				if n%1000 == 0 {
					time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
				}
			}
			now := time.Since(start).Seconds()
			const step = 1.0 / stepsPerWindow // how finely time is told
			total, reported := 0.0, map[string]bool{}
			count := func(key string) (c float64) {
				for _, s := range truth[key] {
					c += s.weight * math.Exp(-(now - s.at))
				}
				return c
			}
			for key := range truth {
				total += count(key)
			}
			top := h.Top("r", 1<<20, ByTraffic)
			var most float64
			for i := range parts {
				most = max(most, h.ruleFor("r", 0).by[ByTraffic].Load().parts[i].total)
			}
			most *= h.ruleFor("r", 0).by[ByTraffic].Load().parts[0].fade(h.step())
			bound := most / float64(keys/parts) * (1 + step)
			for _, e := range top {
				reported[e.Key] = true
				c := count(e.Key)
				if c < e.Count*(1-step) || c > (e.Count+e.Error)*(1+step) {
					t.Errorf("seed %d: %s counts %v, not %v to %v", seed, e.Key, c, e.Count, e.Count+e.Error)
				}
				if e.Error > bound {
					t.Errorf("seed %d: an error of %v is above %v", seed, e.Error, bound)
				}
			}
			if got := h.Total("r", ByTraffic); math.Abs(got/total-1) > step {
				t.Errorf("seed %d: a total of %v, want %v", seed, got, total)
			}
			for key := range truth {
				// Watched keys count more than what an unwatched one may, and no part has more of them than that.
				if c := count(key); c > 2*bound && !reported[key] {
					t.Errorf("seed %d: %s counts %v and is not reported", seed, key, c)
				}
			}
		})
	}
}

func TestLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{})
		long := strings.Repeat("x", 10_000)
		h.Observe("r", long+"a", 5, true)
		h.Observe("r", long+"b", 3, true)
		got := h.Top("r", 5, ByTraffic)
		if len(got) != 2 || got[0].Count != 5 || got[1].Count != 3 || got[0].Key == got[1].Key {
			t.Errorf("%v", got)
		}
		for _, e := range got {
			if !strings.HasPrefix(e.Key, long[:200]+"…") || len(e.Key) > 220 {
				t.Errorf("%q", e.Key)
			}
		}
	})
}

// More rules than there is room for share what is left, and get room of their own once others have faded.
func TestRulesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{Rules: 4, Window: minute})
		for n := range 1000 {
			h.Observe(fmt.Sprintf("rule%d", n), "key", int64(1+n%7), false)
		}
		h.Observe("late", "hot", 10_000, false)
		h.Observe("later", "hot", 9000, false)
		if n := len(*h.rules.Load()); n != 4 {
			t.Errorf("%d rules", n)
		}
		if got := h.Top("", 2, ByTraffic); len(got) != 2 || got[0].Rule != "late" || got[1].Rule != "later" {
			t.Errorf("%v", got)
		}
		if got := h.Top("late", 5, ByTraffic); len(got) != 1 || got[0].Key != "hot" || got[0].Count != 10_000 {
			t.Errorf("%v", got)
		}
		time.Sleep(5 * minute)
		for range 100 {
			h.Observe("rule0", "key", 1, true) // stays
		}
		time.Sleep(15 * minute)
		h.Observe("rule0", "key", 1, true)
		h.Observe("late", "hot", 5000, true)
		if rules := *h.rules.Load(); len(rules) != 2 || rules["late"] == nil || rules["rule0"] == nil {
			t.Errorf("%v", rules)
		}
		if got := h.Top("late", 5, ByTraffic); len(got) != 1 || math.Abs(got[0].Count+got[0].Error-5000) > 1 {
			t.Errorf("%v", got)
		}
	})
}
