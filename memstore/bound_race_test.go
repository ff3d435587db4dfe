package memstore

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// limiterOn returns a limiter whose rule is "rule".
func limiterOn(t *testing.T, s *Store, text string) *tidegate.Limiter {
	t.Helper()
	l, err := tidegate.New(s, *limit(t, text), &tidegate.Config{Rule: "rule"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every token is counted once, whichever of all ways to a bucket it is taken and given back by, and however often the bucket
// moves: out of a cell, into one, and in the table.
func TestViewsCountEveryToken(t *testing.T) {
	s, _ := open(t, Config{SweepEvery: -1})
	ctx := t.Context()
	const burst = 400_000
	l := limiterOn(t, s, "1/h burst 400000")
	charge := tidegate.Charge{Rule: "rule", Key: "hot", Limit: limit(t, "1/h burst 400000"), Cost: 2}
	another := charge
	another.Key = "another"
	shared := l.Key("hot")
	var taken atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			k := l.Key("hot")
			if g%2 == 0 {
				k = shared
			}
			for n := range 4000 {
				var d tidegate.Decision
				var ds []tidegate.Decision
				var err error
				cost := int64(1)
				switch r.IntN(60) {
				case 0:
					d, err = l.Allow(ctx, "hot")
				case 1:
					cost = -1
					d, err = k.AllowN(ctx, -1)
				case 2:
					cost = 2
					ds, err = s.Take(ctx, []tidegate.Charge{charge, another}, nil)
				case 3:
					cost = 0
					d, err = k.Peek(ctx)
				case 4:
					var res *tidegate.Reservation
					if res, err = k.ReserveN(ctx, 5); err == nil {
						cost, d = 3, res.Decision()
						err = res.Settle(ctx, 3)
					}
				case 5:
					cost = 0
					d, err = l.Allow(ctx, strconv.Itoa(n)) // the table grows
				case 6:
					cost = 0
					d = tidegate.Decision{Allowed: true}
					s.sweepShard(s.shard(s.idOf(&charge)))
				default:
					for cost = range int64(10) { // one after the other, so that views meet in the cell
						if d, err = k.Allow(ctx); err != nil || !d.Allowed {
							break
						}
					}
					cost++
				}
				if ds != nil {
					d = ds[0]
				}
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				taken.Add(cost)
			}
		})
	}
	wg.Wait()
	if d, err := l.Peek(ctx, "hot"); err != nil || d.Remaining != burst-taken.Load() {
		t.Errorf("%d remain, want %d; %v", d.Remaining, burst-taken.Load(), err)
	}
}

// What one reset or lack of room lets in is one burst; when it is over, nobody writes what he read before.
func TestViewsAgainstResetAndEviction(t *testing.T) {
	s, _ := open(t, Config{MaxKeys: 1000, SweepEvery: -1})
	ctx := t.Context()
	const burst, resets = 100, 300
	l := limiterOn(t, s, "1/h burst 100")
	shared := l.Key("hot")
	var admitted, done atomic.Int64
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			k := shared
			if g > 0 {
				k = l.Key("hot")
			}
			for done.Load() == 0 {
				d, err := k.Allow(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	for range resets {
		for range 500 {
			if d, err := shared.Peek(ctx); err != nil || !d.Allowed {
				break
			}
		}
		if err := shared.Reset(ctx); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(1)
	wg.Wait()
	if n := admitted.Load(); n > burst*(resets+1) || n < burst {
		t.Errorf("%d were admitted by %d bursts", n, resets+1)
	}
	if err := shared.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if d, _ := shared.Peek(ctx); d.Remaining != burst {
		t.Errorf("%d remain after a reset", d.Remaining)
	}

	// A view of a bucket that has to make room for others.
	for n := range 3000 {
		d, err := shared.Allow(ctx)
		if err != nil || d.Remaining > burst-1 {
			t.Fatalf("%+v, %v", d, err)
		}
		if _, err := l.AllowN(ctx, strconv.Itoa(n), 100); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(t, s, 900, 1000)
}

// A clock that moves while views take, each of which reads it before it looks at the bucket, gives nothing twice.
func TestViewsUnderAMovingClock(t *testing.T) {
	s, clock := open(t, Config{SweepEvery: -1})
	ctx := t.Context()
	const burst, perTick = 10, 3
	l := limiterOn(t, s, "3000000/s burst 10")
	k := l.Key("hot")
	if _, err := k.Allow(ctx); err != nil {
		t.Fatal(err)
	}
	start := clock.us.Load()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 30_000 {
				clock.us.Add(1)
				for range 2 {
					if d, err := k.Allow(ctx); err != nil {
						t.Error(err)
						return
					} else if d.Allowed {
						admitted.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if most := burst + perTick*(clock.us.Load()-start); admitted.Load() > most {
		t.Errorf("%d were admitted, at most %d are due", admitted.Load(), most)
	}
}

// A change of the limit reaches a view that is in use, at once and for good, whatever else goes on.
func TestViewsAgainstSetLimit(t *testing.T) {
	s, clock := open(t, Config{SweepEvery: -1})
	ctx := t.Context()
	l := limiterOn(t, s, "1/h burst 400000")
	k := l.Key("hot")
	for range 20 {
		if _, err := k.Allow(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			k := l.Key("hot")
			for n := 0; !done.Load(); n++ {
				var err error
				if g == 0 && n%5 == 0 {
					_, err = l.Allow(ctx, "hot")
				} else {
					_, err = k.Allow(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range int64(300) {
		clock.advance(time.Millisecond)
		next := tidegate.Limit{Rate: 1, Per: time.Hour, Burst: 400_000 + n}
		if err := k.SetLimit(ctx, next); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if d, err := k.Allow(ctx); err != nil || d.Limit != next.Burst {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	done.Store(true)
	wg.Wait()
}
