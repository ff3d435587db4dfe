package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/storetest"
)

// viewed is a store whose takes of one charge go through views of their keys, which it keeps, where they can.
type viewed struct {
	*Store

	mu    sync.Mutex
	views map[[2]string]tidegate.BoundKey
}

func newViewed(s *Store) *viewed { return &viewed{Store: s, views: map[[2]string]tidegate.BoundKey{}} }

func (v *viewed) view(rule, key string) tidegate.BoundKey {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.views[[2]string{rule, key}]
	if k == nil {
		k = v.Bind(v.Store, rule).Key(key)
		v.views[[2]string{rule, key}] = k
	}
	return k
}

func (v *viewed) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if len(charges) != 1 {
		return v.Store.Take(ctx, charges, dst)
	}
	c := charges[0]
	if c.ID != "" || c.MaxWait != 0 || c.Shadow {
		return v.Store.Take(ctx, charges, dst)
	}
	o, w, err := v.view(c.Rule, c.Key).Take(ctx, c.Limit, c.Version, c.Cost)
	if err != nil {
		return dst, err
	}
	return append(dst, o.Decision(w, c.Rule)), nil
}

// What a view decides is what every store decides.
func TestConformanceOfViews(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(_ *testing.T, now func() time.Time) tidegate.Store {
			return newViewed(New(&Config{Now: now}))
		},
		Buckets: func(_ *testing.T, s tidegate.Store) int64 {
			return s.(*viewed).Stats().Keys
		},
	})
}

// longWay is a store that knows no short way.
type longWay struct{ *Store }

func (l longWay) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if len(charges) != 1 {
		return l.Store.Take(ctx, charges, dst)
	}
	d, err := l.takeAny(&charges[0], l.idOf(&charges[0]))
	if err != nil {
		return dst, err
	}
	return append(dst, d), nil
}

// isOpen reports whether the bucket's state is in a cell.
func (s *Store) isOpen(rule, key string) bool {
	i := s.idOf(&tidegate.Charge{Rule: rule, Key: key})
	sh := s.shard(i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.look(i)
	return slot >= 0 && sh.slots[slot].a&bound != 0
}

// differ is a short and a long way to two stores under one clock.
type differ struct {
	t     *testing.T
	r     *rand.Rand
	clock *still
	short *viewed
	long  longWay
	open  int // how often a bucket was in a cell
}

// both does the same to both stores.
func (d *differ) both(what string, f func(s tidegate.Store) (any, error)) {
	d.t.Helper()
	got, gotErr := f(d.short)
	want, wantErr := f(d.long)
	if fmt.Sprint(got, gotErr) != fmt.Sprint(want, wantErr) {
		d.t.Fatalf("%s:\n got %+v %v\nwant %+v %v", what, got, gotErr, want, wantErr)
	}
}

func (d *differ) take(charges ...tidegate.Charge) {
	d.t.Helper()
	d.both(fmt.Sprintf("take of %+v", charges), func(s tidegate.Store) (any, error) {
		return s.Take(d.t.Context(), charges, nil)
	})
}

// step does one thing at random to the bucket of the key, and moves the clock.
func (d *differ) step(limits []*tidegate.Limit, n int) {
	r := d.r
	key := fmt.Sprint(r.IntN(3))
	c := tidegate.Charge{Rule: "rule", Key: key, Limit: limits[0], Cost: 1 + r.Int64N(3)}
	if r.IntN(30) == 0 { // another limit, newer, older or as old
		c.Limit, c.Version = limits[r.IntN(len(limits))], r.Int64N(3)*int64(n)
	}
	switch r.IntN(40) {
	case 0:
		d.both("reset", func(s tidegate.Store) (any, error) { return nil, s.Reset(d.t.Context(), []tidegate.Charge{c}) })
	case 1:
		c.Cost = -c.Cost
		d.take(c)
	case 2:
		c.Cost = 0
		d.take(c)
	case 3:
		other := c
		other.Key = key + "'"
		d.take(c, other)
	case 4:
		c.ID, c.Hold, c.MaxWait = fmt.Sprint(n), time.Hour, time.Duration(r.Int64N(int64(time.Minute)))
		d.take(c)
		d.both("settle", func(s tidegate.Store) (any, error) {
			return nil, s.Settle(d.t.Context(), c.ID, []tidegate.Charge{c}, int64(n%5))
		})
	case 5:
		c.Cost = c.Limit.Capacity() + r.Int64N(2)
		d.take(c)
	case 6:
		d.short.sweepShard(d.short.shard(d.short.idOf(&c)))
		d.long.sweepShard(d.long.shard(d.long.idOf(&c)))
	case 7: // by the rule, not by the view
		d.both("take by the rule", func(s tidegate.Store) (any, error) {
			if s == tidegate.Store(d.long) {
				return s.Take(d.t.Context(), []tidegate.Charge{c}, nil)
			}
			o, w, err := d.short.Bind(d.short.Store, c.Rule).Take(d.t.Context(), c.Key, c.Limit, c.Version, c.Cost)
			return []tidegate.Decision{o.Decision(w, c.Rule)}, err
		})
	case 8: // by another view
		d.short.views = map[[2]string]tidegate.BoundKey{}
		d.take(c)
	default:
		d.take(c)
	}
	if d.short.isOpen("rule", key) {
		d.open++
	}
	switch r.IntN(12) {
	case 0:
		d.clock.advance(-time.Duration(r.Int64N(int64(time.Second))))
	case 1:
		d.clock.advance(time.Duration(r.Int64N(1 << r.IntN(50))))
	case 2, 3, 4, 5, 6, 7:
		d.clock.advance(time.Duration(r.Int64N(int64(limits[0].Per) / max(1, limits[0].Rate/2))))
	}
}

// Whatever happens to a bucket, and by whichever way, a view decides as the general way does, to the last bit.
func TestViewsDecideAlike(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, text := range []string{
		"10/s burst 20", "1000000/s burst 1000000", "10/day burst 5", "1000000000/s burst 1000000000", "7/min burst 3",
		"3/90day burst 2", "10/s leaky-bucket queue 50", "1000/s burst 1000000000", "20/min sliding-window", "100/s warmup 8s",
	} {
		t.Run(text, func(t *testing.T) {
			limits := []*tidegate.Limit{limit(t, text), limit(t, text), limit(t, "5/s burst 40"), limit(t, "30/min fixed-window"), limit(t, "10/s leaky-bucket queue 9")}
			inCell, rounds := 0, 12
			for round := range rounds {
				short, clock := open(t, Config{SweepEvery: -1})
				d := &differ{
					t: t, r: rand.New(rand.NewPCG(seed, uint64(round))), clock: clock, short: newViewed(short),
					long: longWay{New(&Config{Now: clock.now, SweepEvery: -1})},
				}
				short.leastRoom = 0
				d.long.seeds = short.seeds // so that a sweep finds the same buckets in a shard
				for n := range 400 {
					d.step(limits, n)
				}
				inCell += d.open
				_ = d.long.Close()
			}
			plain := limits[0].Warmup == 0 && limits[0].Algorithm != tidegate.SlidingWindow
			if plain != (inCell > rounds*20) {
				t.Errorf("%d steps left a bucket in a cell", inCell)
			}
		})
	}
}

// A store that embeds this one has a Take of its own, which no limiter passes by.
func TestWrappersAreNotPassedBy(t *testing.T) {
	s, _ := open(t, Config{})
	l, err := tidegate.New(refusing{s}, *limit(t, "10/s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, take := range map[string]func() (tidegate.Decision, error){
		"Allow":     func() (tidegate.Decision, error) { return l.Allow(t.Context(), "key") },
		"AllowN":    func() (tidegate.Decision, error) { return l.AllowN(t.Context(), "key", 2) },
		"Key.Allow": func() (tidegate.Decision, error) { return l.Key("key").Allow(t.Context()) },
		"Key.Peek":  func() (tidegate.Decision, error) { return l.Key("key").Peek(t.Context()) },
	} {
		if d, err := take(); err != nil || d.Allowed || d.Rule != "refusing" {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
}

type refusing struct{ *Store }

func (refusing) Take(_ context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	for range charges {
		dst = append(dst, tidegate.Decision{Rule: "refusing"})
	}
	return dst, nil
}

// A view answers what the limiter does when there is no decision.
func TestViewWithoutADecision(t *testing.T) {
	s, _ := open(t, Config{})
	l, err := tidegate.New(s, *limit(t, "10/s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := l.Key("key")
	want := func(what string, sentinel error) {
		t.Helper()
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			if what == "cancelled" {
				cancel()
			}
			_, err := l.Allow(ctx, "key")
			d, kerr := k.Allow(ctx)
			cancel()
			if fmt.Sprint(err) != fmt.Sprint(kerr) || (sentinel == nil) != (kerr == nil) || d.Rule == "" != (kerr != nil) {
				t.Errorf("%s: the limiter says %v, the view %v and %+v", what, err, kerr, d)
			}
		}
	}
	want("fresh", nil)
	want("cancelled", context.Canceled)
	want("in use", nil)
	_ = s.Close()
	want("closed", tidegate.ErrClosed)
}

// A bucket that is made the short way is under the version that was asked for, not one of the same limit that went before.
func TestNewBucketsOfVersions(t *testing.T) {
	s, _ := open(t, Config{})
	older, newer := limit(t, "10/s burst 20"), limit(t, "10/s burst 40")
	takeCharge(t, s, tidegate.Charge{Key: "a", Limit: older, Version: 5, Cost: 1})
	takeCharge(t, s, tidegate.Charge{Key: "b", Limit: older, Version: 1, Cost: 1})
	if d := takeCharge(t, s, tidegate.Charge{Key: "b", Limit: newer, Version: 3, Cost: 1}); d.Limit != 40 {
		t.Errorf("%+v", d)
	}
}
