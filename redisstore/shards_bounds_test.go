package redisstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// passed is a take that did.
type passed struct{ at, cost int64 }

// drive makes takes at random times, of which some ask more than the limit gives, and returns those that passed.
func drive(t *testing.T, s *Store, now *int64, c tidegate.Charge, takes int, gap int64) []passed {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s.chance = r.Uint64
	largest := (c.Limit.Capacity() + int64(c.Limit.Shards) - 1) / int64(c.Limit.Shards)
	var all []passed
	for range takes {
		switch r.IntN(20) {
		case 0:
			*now += r.Int64N(60 * gap) // rests
		case 1, 2, 3:
		default:
			*now += r.Int64N(2 * gap)
		}
		c.Cost = 1
		if r.IntN(4) == 0 {
			c.Cost = 1 + r.Int64N(largest)
		}
		if mustTake(t, s, c)[0].Allowed {
			all = append(all, passed{*now, c.Cost})
		}
	}
	if len(all) < takes/20 || len(all) > takes*19/20 {
		t.Fatalf("%d of %d takes passed, which tests little", len(all), takes)
	}
	return all
}

// In every interval of t ticks at most B + ⌊L·t/P⌋ pass all shards together.
func TestShardsKeepTheBoundOfATokenBucket(t *testing.T) {
	srv := redistest.Start(t)
	for _, text := range []string{"1000/s burst 50 shards 8", "700/s burst 21 shards 7", "1000/s burst 3 shards 3", "9/s burst 101 shards 2"} {
		t.Run(text, func(t *testing.T) {
			s, now, _ := deniedStore(t, srv.URL())
			l := parseLimit(t, text)
			all := drive(t, s, now, tidegate.Charge{Rule: "r", Key: "k", Limit: l}, 3000, int64(l.Per/time.Microsecond)/l.Rate)
			for i := range all {
				sum := int64(0)
				for _, p := range all[i:] {
					sum += p.cost
					if most := l.Burst + l.Rate*(p.at-all[i].at)/int64(l.Per/time.Microsecond); sum > most {
						t.Fatalf("%d passed within %d µs, at most %d may", sum, p.at-all[i].at, most)
					}
				}
			}
		})
	}
}

// In every fixed window at most N pass all shards together, and what they have in use is what passed.
func TestShardsKeepTheBoundOfAFixedWindow(t *testing.T) {
	srv := redistest.Start(t)
	for _, text := range []string{"100/s fixed-window shards 8", "7/s fixed-window shards 7", "1000/min fixed-window shards 3"} {
		t.Run(text, func(t *testing.T) {
			s, now, _ := deniedStore(t, srv.URL())
			l := parseLimit(t, text)
			per := int64(l.Per / time.Microsecond)
			c := tidegate.Charge{Rule: "r", Key: "k", Limit: l}
			sums := map[int64]int64{}
			for _, p := range drive(t, s, now, c, 3000, per/l.Rate) {
				if sums[p.at/per] += p.cost; sums[p.at/per] > l.Rate {
					t.Fatalf("%d passed in a window", sums[p.at/per])
				}
			}
			if n := inUse(t, s, c); n != sums[*now/per] {
				t.Errorf("%d are in use, but %d passed", n, sums[*now/per])
			}
		})
	}
}

// What passes all shards together keeps to the weighted count of the whole: the slice that is about to leave the window
// counts by what is left of it.
func TestShardsKeepTheBoundOfASlidingWindow(t *testing.T) {
	srv := redistest.Start(t)
	for _, text := range []string{"100/s sliding-window shards 8", "101/s sliding-window slices 5 shards 3"} {
		t.Run(text, func(t *testing.T) {
			s, now, _ := deniedStore(t, srv.URL())
			l := parseLimit(t, text)
			slice := int64(l.Per/time.Microsecond) / int64(l.Slices)
			sums := map[int64]int64{}
			for _, p := range drive(t, s, now, tidegate.Charge{Rule: "r", Key: "k", Limit: l}, 3000, slice*int64(l.Slices)/l.Rate) {
				n := p.at / slice
				sums[n] += p.cost
				weighted := sums[n-int64(l.Slices)] * (slice - p.at%slice)
				for i := range int64(l.Slices) {
					weighted += sums[n-i] * slice
				}
				if weighted > l.Rate*slice {
					t.Fatalf("%.2f are in the window", float64(weighted)/float64(slice))
				}
			}
		})
	}
}

// Load that is spread evenly gets nearly all of what the limit gives: how much is in docs/decisions/0013-shards.md.
func TestShardsGiveNearlyTheWhole(t *testing.T) {
	srv := redistest.Start(t)
	for _, test := range []struct {
		limit      string
		load, want float64 // as parts of the rate
	}{
		{"800/s burst 80 shards 8", 0.9, 0.89},
		{"800/s burst 80 shards 8", 1, 0.975},
		{"800/s burst 80 shards 8", 1.2, 0.99},
		{"800/s burst 16 shards 8", 1, 0.83},
	} {
		s, now, _ := deniedStore(t, srv.URL())
		l := parseLimit(t, test.limit)
		c := tidegate.Charge{Rule: "r", Key: test.limit + time.Duration(1e6*test.load).String(), Limit: l, Cost: 1}
		const seconds = 10
		n, asked := int64(0), int(seconds*test.load*float64(l.Rate))
		for i := range asked {
			*now = base + int64(i)*seconds*1e6/int64(asked)
			if mustTake(t, s, c)[0].Allowed && *now >= base+seconds*1e6/2 {
				n++ // once the first burst is gone
			}
		}
		got := float64(n) / float64(l.Rate*seconds/2)
		t.Logf("%s: of a load of %v of it passed %.3f", test.limit, test.load, got)
		if got < test.want {
			t.Errorf("%s: of a load of %v of it passed %.3f, want %.3f", test.limit, test.load, got, test.want)
		}
	}
}
