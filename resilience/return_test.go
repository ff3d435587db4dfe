package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// Three replicas, 1000 a day, 50 spent while one, some or all could not reach the store: 950 are left, and not 283.
func TestPartitionLeaves950(t *testing.T) {
	for name, spent := range map[string][]int{"one": {50, 0, 0}, "all": {20, 20, 10}, "two": {0, 49, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sv := newServer(t)
				rs := newFleet(t, sv, 3, Config{})
				time.Sleep(3 * time.Second)
				c := charge(t, "daily", "tenant", "1000/day", 1)
				for i, r := range rs {
					if spent[i] == 0 {
						continue
					}
					r.drop(fails("partition"))
					if n := r.admits(c, spent[i]); n != int64(spent[i]) {
						t.Errorf("replica %d admitted %d of %d", i, n, spent[i])
					}
				}
				time.Sleep(10 * time.Second)
				for _, r := range rs {
					r.way.set(nil)
				}
				time.Sleep(5 * time.Second)
				if n := sv.remains(t, c); n != 950 {
					t.Errorf("%d are left", n)
				}
				for i, r := range rs { // nor does a take of the key pay again
					if d := r.take(c); d.Source != tidegate.SourceStore || d.Remaining != int64(949-i) {
						t.Errorf("%+v", d)
					}
					if st := r.Status(); st.Debts != 0 || st.Forgotten != 0 {
						t.Errorf("%+v", st)
					}
				}
			})
		})
	}
}

// What came back since is not charged, and nothing below empty.
func TestWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		var repaid []string
		var mu sync.Mutex
		r := newReplica(t, sv, Config{Replicas: 1, Hooks: Hooks{Repaid: func(rule string, charged, left int64) {
			mu.Lock()
			defer mu.Unlock()
			repaid = append(repaid, fmt.Sprint(rule, " ", charged, " ", left))
		}}})
		r.drop(fails("down"))
		refills := charge(t, "refills", "k", "1/s burst 100", 1) // 60 spent, 20 come back
		window := charge(t, "window", "k", "100/h fixed-window", 1)
		over := charge(t, "over", "k", "100/1000h", 1) // 80 spent, of which others have left 30
		denied := charge(t, "denied", "k", "100/1000h", 1)
		denied.OnFailure.Action = tidegate.FailDeny
		free := charge(t, "free", "k", "100/1000h", 1)
		free.OnFailure.Action = tidegate.FailAllow
		for c, n := range map[*tidegate.Charge]int{&refills: 60, &window: 40, &over: 80, &denied: 10, &free: 250} {
			r.admits(*c, n)
		}
		others := over
		others.Cost = 70
		if _, err := sv.store.Take(context.Background(), []tidegate.Charge{others}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		r.way.set(nil)
		time.Sleep(4 * time.Second)
		for c, want := range map[*tidegate.Charge]int64{&refills: 64, &window: 60, &over: 0, &denied: 100, &free: 0} {
			if n := sv.remains(t, *c); n < want-1 || n > want+1 {
				t.Errorf("%s: %d remain, want %d (%q)", c.Rule, n, want, repaid)
			}
		}
	})
}

// A key that is asked for at once is charged before it is decided, whoever else is being paid for.
func TestPaidBeforeDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		r.drop(fails("down"))
		for i := range 3000 {
			r.take(charge(t, "many", fmt.Sprint(i), "100/1000h", 1))
		}
		c := charge(t, "api", "k", "100/1000h", 1)
		r.admits(c, 100)
		r.way.set(func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Millisecond) // a round trip
			return do()
		})
		for r.Status().State == Fallback {
			time.Sleep(time.Millisecond)
		}
		if d := r.take(c); d.Allowed || d.Source != tidegate.SourceStore {
			t.Errorf("%+v", d)
		}
		if n := r.Status().Debts; n < 1000 {
			t.Errorf("%d debts are left: all at once", n)
		}
		time.Sleep(time.Second)
		if n := r.Status().Debts; n != 0 {
			t.Errorf("%d debts are left after a second", n)
		}
	})
}

// A charge whose answer is lost is not tried again; one that did not run is.
func TestChargedOnce(t *testing.T) {
	for name, f := range map[string]fault{"lost": lost, "refused": fails("LOADING")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sv := newServer(t)
				r := newReplica(t, sv, Config{Replicas: 1})
				r.drop(fails("down"))
				c := charge(t, "api", "k", "100/1000h", 1)
				r.admits(c, 30)
				var times atomic.Int64
				r.way.set(func(ctx context.Context, op string, do func() error) error {
					if op == "take" && times.CompareAndSwap(0, 1) {
						return f(ctx, op, do)
					}
					return do()
				})
				time.Sleep(5 * time.Second)
				if n := sv.remains(t, c); n != 70 || times.Load() != 1 {
					t.Errorf("%d remain after %d tries", n, times.Load())
				}
			})
		})
	}
}

// admissions counts what all replicas admit of one key.
type admissions struct {
	mu sync.Mutex
	at []time.Duration
}

func (a *admissions) add(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, at)
}

// peak returns the most in any interval of a length that ends in [from, to).
func (a *admissions) peak(length, from, to time.Duration) (most int) {
	j := 0
	for i, at := range a.at {
		for a.at[j] <= at-length {
			j++
		}
		if at >= from && at < to {
			most = max(most, i-j+1)
		}
	}
	return most
}

// excess returns how many more than B + L·t are admitted in the worst interval within [from, to).
func (a *admissions) excess(l *tidegate.Limit, from, to time.Duration) (worst float64) {
	level, last := 0.0, from
	for _, at := range a.at {
		if at < from || at >= to {
			continue
		}
		level = max(0, level-float64(l.Rate)*float64(at-last)/float64(l.Per)) + 1
		last = at
		worst = max(worst, level-float64(l.Burst))
	}
	return worst
}

func (a *admissions) between(from, to time.Duration) (n int) {
	for _, at := range a.at {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// flood asks for one key at a rate, by shares of it, until an end, and returns what was admitted.
func flood(t *testing.T, rs []*replica, c tidegate.Charge, perSecond int, skew []int, end time.Duration, at func(time.Duration)) *admissions {
	t.Helper()
	start := time.Now()
	a := &admissions{}
	random := rand.New(rand.NewPCG(1, 2))
	gap := time.Second / time.Duration(perSecond)
	var under sync.WaitGroup
	for time.Since(start) < end {
		at(time.Since(start))
		pick, i := random.IntN(100), 0
		for pick -= skew[0]; pick >= 0; pick -= skew[i] {
			i++
		}
		under.Go(func() {
			ds, err := rs[i].Take(context.Background(), []tidegate.Charge{c}, nil)
			if err != nil {
				t.Errorf("take: %v", err)
				return
			}
			if ds[0].Allowed {
				a.add(time.Since(start))
			}
		})
		time.Sleep(gap)
	}
	under.Wait()
	return a
}

// The experiment: 600/s burst 100, 2000/s offered to replicas of which some are asked more than others; the store is away
// for a while, and is back as it was, or empty, or with writes lost. Nobody sees more than the limit, nor much less.
func TestLimitHoldsThroughOutage(t *testing.T) {
	const away, back, end = 6 * time.Second, 12 * time.Second, 20 * time.Second
	skews := [][]int{{60, 25, 15}, {80, 15, 5}, {40, 25, 15, 12, 8}}
	for i, skew := range skews {
		for name, f := range map[string]struct {
			fault fault
			then  func(*server)
		}{
			"partition": {fails("connection refused"), func(*server) {}},
			"wiped":     {fails("connection refused"), (*server).wipe},
			"hang":      {hangs, func(*server) {}},
			"stale":     {hangs, (*server).failOver},
		} {
			t.Run(fmt.Sprint(name, skew), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sv := newServer(t)
					rs := newFleet(t, sv, len(skew), Config{})
					c := charge(t, "api", "", "600/s burst 100", 1)
					step := 0
					a := flood(t, rs, c, 2000, skew, end, func(now time.Duration) {
						switch {
						case step == 0 && now >= away-time.Second:
							sv.mu.Lock()
							sv.lagging = true // the last second is lost to who fails over
							sv.mu.Unlock()
							step++
						case step == 1 && now >= away:
							for _, r := range rs {
								r.way.set(f.fault)
							}
							step++
						case step == 2 && now >= back:
							f.then(sv)
							for _, r := range rs {
								r.way.set(nil)
							}
							step++
						}
					})
					before := a.excess(c.Limit, 0, away)
					mean := float64(a.between(away+time.Second, back)) / (back - away - time.Second).Seconds()
					peak := a.peak(time.Second, away, back)
					recovery := a.peak(time.Second, back, end)
					after := float64(a.between(end-4*time.Second, end)) / 4
					t.Logf("before %+.0f; away: mean %.0f, peak %d, return: peak %d, after: mean %.0f", before, mean, peak, recovery, after)
					if before > 1e-6 || mean < 540 || mean > 615 || after < 590 || after > 610 {
						t.Errorf("out of bounds")
					}
					if most := 630 + 30*(i/2); peak > most { // at least one token each, and callers who waited
						t.Errorf("%d in a second while the store was away", peak)
					}
					if recovery > 630 {
						t.Errorf("%d in a second after the return", recovery)
					}
				})
			})
		}
	}
}

// While the store is away all replicas together admit what one bucket would, in every interval: B + L·t.
func TestBoundWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 3, Config{})
		time.Sleep(3 * time.Second)
		for _, r := range rs {
			r.drop(fails("down"))
		}
		c := charge(t, "api", "fresh", "600/s burst 100", 1)
		a := flood(t, rs, c, 3000, []int{40, 30, 30}, 10*time.Second, func(time.Duration) {})
		if over := a.excess(c.Limit, 0, time.Hour); over > 1e-6 {
			t.Errorf("%v more than one bucket", over)
		}
		if n := a.between(0, time.Hour); n < 5900 {
			t.Errorf("%d in ten seconds", n)
		}
	})
}

// A replica that is back before the others keeps to its share and to the store, until they have beaten or expired.
func TestStagedReturn(t *testing.T) {
	for name, dies := range map[string]bool{"later": false, "never": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sv := newServer(t)
				rs := newFleet(t, sv, 2, Config{})
				time.Sleep(4 * time.Second)
				for _, r := range rs {
					r.drop(fails("down"))
				}
				time.Sleep(10 * time.Second)
				c := charge(t, "api", "k", "100/1000h", 1)
				rs[0].way.set(nil)
				time.Sleep(300 * time.Millisecond)
				if st := rs[0].Status(); st.State != Returning {
					t.Fatalf("%+v", st)
				}
				var source [2]tidegate.Source
				n := 0
				for range 100 {
					d := rs[0].take(c)
					if d.Allowed {
						n++
						source[0] = d.Source
					} else {
						source[1] = d.Source
					}
				}
				if n != 50 || source[0] != tidegate.SourceStore || source[1] != tidegate.SourceFallback {
					t.Errorf("%d passed by half of the limit, sources %v", n, source)
				}
				if n := rs[1].admits(c, 100); n != 50 {
					t.Errorf("%d passed at the one that is away", n)
				}
				if !dies {
					rs[1].way.set(nil)
					time.Sleep(1200 * time.Millisecond)
					for _, r := range rs {
						if st := r.Status(); st.State != Shared {
							t.Errorf("all are back: %+v", st)
						}
					}
					if n := sv.remains(t, c); n != 0 {
						t.Errorf("%d remain", n)
					}
					return
				}
				time.Sleep(2 * time.Second)
				if st := rs[0].Status(); st.State != Returning {
					t.Errorf("before it has expired: %+v", st)
				}
				time.Sleep(2 * time.Second)
				if st := rs[0].Status(); st.State != Shared {
					t.Errorf("after it has expired: %+v", st)
				}
			})
		})
	}
}

// What passes in a staged return is charged once.
func TestStagedTakesAreChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		rs := newFleet(t, sv, 2, Config{})
		time.Sleep(4 * time.Second)
		for _, r := range rs {
			r.drop(fails("down"))
		}
		c := charge(t, "api", "k", "1000/1000h", 1)
		rs[0].admits(c, 20)
		rs[1].admits(c, 7)
		rs[0].way.set(nil)
		time.Sleep(300 * time.Millisecond)
		rs[0].admits(c, 5)
		if n := sv.remains(t, c); n != 995 || rs[0].Status().State != Returning {
			t.Errorf("in the stage %d remain, %+v", n, rs[0].Status())
		}
		time.Sleep(4 * time.Second)
		if n := sv.remains(t, c); n != 975 {
			t.Errorf("%d remain when the other is still away", n)
		}
		rs[1].way.set(nil)
		time.Sleep(4 * time.Second)
		if n := sv.remains(t, c); n != 968 {
			t.Errorf("%d remain after", n)
		}
	})
}

// Each outage begins anew, with what the store told last.
func TestSecondOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{})
		c := charge(t, "api", "k", "100/1000h", 1)
		c.OnFailure.Share = 0.5
		time.Sleep(time.Second)
		left := int64(100)
		for i, want := range []int64{50, 25, 12} {
			r.drop(fails("down"))
			if n := r.admits(c, 100); n != want {
				t.Errorf("outage %d: %d passed, want %d", i+1, n, want)
			}
			r.way.set(nil)
			time.Sleep(2 * time.Second)
			left -= want
			peek := c
			peek.Cost = 0
			if d := r.take(peek); d.Remaining != left || d.Source != tidegate.SourceStore {
				t.Errorf("after outage %d: %+v, want %d", i+1, d, left)
			}
		}
	})
}

// A store that lost its data lets pass at most one more burst, and less where a replica remembers: in an outage, or with
// nobody noticing but by the marker.
func TestLostData(t *testing.T) {
	for _, noticed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sv := newServer(t)
			rs := newFleet(t, sv, 3, Config{})
			time.Sleep(3 * time.Second)
			known, unknown := charge(t, "api", "known", "100/1000h", 1), charge(t, "api", "unknown", "100/1000h", 1)
			for _, r := range rs {
				r.admits(known, 30)
			}
			rs[0].admits(unknown, 100)
			if noticed {
				for _, r := range rs {
					r.drop(fails("down"))
				}
				time.Sleep(2 * time.Second)
				sv.wipe()
				for _, r := range rs {
					r.way.set(nil)
				}
			} else {
				sv.wipe()
			}
			time.Sleep(5 * time.Second)
			sum := int64(0)
			for _, r := range rs {
				sum += r.admits(known, 100)
			}
			// The first to ask restores what it knows, which is that 70 were left. Unnoticed, it was told so before.
			if sum > 70 {
				t.Errorf("noticed %t: %d more passed", noticed, sum)
			}
			if n := rs[1].admits(unknown, 200); n > 100 {
				t.Errorf("noticed %t: %d of a key that it does not know", noticed, n)
			}
			if n := rs[0].admits(unknown, 200); n > 0 {
				t.Errorf("noticed %t: %d of a key that it knows is spent", noticed, n)
			}
		})
	}
}

// What is remembered is bounded, and what owes nothing goes first.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1, MaxKeys: 640, Local: memstore.New(&memstore.Config{MaxKeys: 100_000})})
		for i := range 5000 {
			r.take(charge(t, "told", fmt.Sprint(i), "100/1000h", 1))
		}
		r.drop(fails("down"))
		for i := range 300 {
			r.take(charge(t, "owed", fmt.Sprint(i), "100/1000h", 1))
		}
		if st := r.Status(); st.Debts < 290 || st.Forgotten > 10 {
			t.Errorf("%+v", st)
		}
		for i := range 5000 {
			r.take(charge(t, "more", fmt.Sprint(i), "100/1000h", 1))
		}
		keys := 0
		for i := range r.memories.shards {
			keys += r.memories.shards[i].n
		}
		if st := r.Status(); keys > 640 || st.Debts > 640 || st.Forgotten < 4000 {
			t.Errorf("%d keys, %+v", keys, st)
		}
		r.way.set(nil)
		time.Sleep(5 * time.Second)
		if st := r.Status(); st.Debts != 0 || st.State != Shared {
			t.Errorf("%+v", st)
		}
	})
}

// A replica that is closed while the store is away, or back, leaves nothing behind.
func TestCloseWhileAway(t *testing.T) {
	for _, f := range []fault{nil, hangs, fails("down")} {
		synctest.Test(t, func(t *testing.T) {
			sv := newServer(t)
			r := newReplica(t, sv, Config{})
			time.Sleep(2 * time.Second)
			if f != nil {
				r.drop(f)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if f == nil && sv.table.Replicas() != 0 {
				t.Error("it did not say that it leaves")
			}
			if _, err := r.Take(context.Background(), nil, nil); err == nil {
				t.Error("a take after Close")
			}
		})
	}
}
