package redisstore

import (
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate"
)

// shardsOf compiles a limit that has shards.
func shardsOf(tb testing.TB, limit string) *compiled {
	tb.Helper()
	l, err := compile(parseLimit(tb, limit), 0)
	if err != nil {
		tb.Fatal(err)
	}
	if l.shards == nil {
		tb.Fatalf("%s has no shards", limit)
	}
	return l
}

func TestCompileShards(t *testing.T) {
	for _, test := range []struct {
		limit  string
		larger int
	}{
		{"10/s burst 100 shards 4", 0},
		{"10/s burst 101 shards 4", 1},
		{"10/s burst 103 shards 4 lease 50ms", 3},
		{"7/min fixed-window shards 2", 1},
		{"8/month shards 3", 2},
		{"9/min sliding-window slices 5 shards 3", 0},
	} {
		whole := parseLimit(t, test.limit)
		l := shardsOf(t, test.limit)
		if len(l.shards) != whole.Shards || l.larger != test.larger {
			t.Errorf("%s: %d shards of which %d are larger, want %d and %d", test.limit, len(l.shards), l.larger, whole.Shards, test.larger)
		}
		for i, shard := range l.shards {
			limit := whole.Shard(i)
			want, err := compile(&limit, 0)
			if err != nil {
				t.Fatal(err)
			}
			if shard.params.Spec != want.params.Spec || shard.tail != want.tail || shard.params.Capacity != want.params.Capacity {
				t.Errorf("%s: shard %d is %q, want %q", test.limit, i, shard.params.Spec, want.params.Spec)
			}
			if first := l.shards[0]; limit == whole.Shard(0) && shard != first {
				t.Errorf("%s: shard %d is compiled anew", test.limit, i)
			}
		}
	}
}

// Each shard is as likely as any other, as the first and as the other one, which is never the same; and a cost that only
// the larger ones can pass goes to these.
func TestChoice(t *testing.T) {
	const draws = 40_000
	for _, test := range []struct {
		limit string
		large bool
		among int
	}{
		{"10/s burst 8 shards 2", false, 2},
		{"10/s burst 21 shards 7", false, 7},
		{"10/s burst 24 shards 7", false, 7},
		{"10/s burst 24 shards 7", true, 3},
		{"10/s burst 21 shards 7", true, 7}, // for the sake of another charge of the take
		{"10/s burst 22 shards 7", true, 1},
		{"1000/s shards 100", false, 100},
	} {
		l := shardsOf(t, test.limit)
		first, other := make([]int, len(l.shards)), make([]int, len(l.shards))
		for range draws {
			c := choice{at: drawOf(rand.Text()), large: test.large}
			i := c.shard(l)
			c.other = true
			j := c.shard(l)
			if i == j && test.among > 1 {
				t.Fatalf("%s: the other shard is the first, %d", test.limit, i)
			}
			first[i]++
			other[j]++
		}
		for _, counts := range [][]int{first, other} {
			for i, n := range counts {
				want := 0.0
				if i < test.among {
					want = draws / float64(test.among)
				}
				if math.Abs(float64(n)-want) > 6*math.Sqrt(want) {
					t.Errorf("%s, large %v: shard %d is chosen %d times of %d", test.limit, test.large, i, n, draws)
				}
			}
		}
	}
}

// A settle in another process, of another release even, must find the shards that the ID led to.
func TestShardsOfAnIDDoNotChange(t *testing.T) {
	l := shardsOf(t, "1000/s burst 1003 shards 10")
	for _, test := range []struct {
		id                 string
		first, other       int
		large, otherLarger int
	}{
		{"", 9, 6, 2, 1},
		{"reservation", 0, 7, 0, 2},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 3, 1, 0},
	} {
		at := drawOf(test.id)
		got := [4]int{
			choice{at: at}.shard(l), choice{at: at, other: true}.shard(l),
			choice{at: at, large: true}.shard(l), choice{at: at, large: true, other: true}.shard(l),
		}
		if want := [4]int{test.first, test.other, test.large, test.otherLarger}; got != want {
			t.Errorf("%q leads to %v, not %v", test.id, got, want)
		}
	}
}

// No two shards of any two buckets share a key, and shard 0 is the bucket without shards.
func TestShardKeys(t *testing.T) {
	long := strings.Repeat("x", 300)
	keys := []string{"", "k", "k%@1", "k%@", "%@1", "%@", "@1", "k%251", "k%25@1", "k@1", "k/1", "1", long, long + "%@1", "{k}"}
	for _, cfg := range []Config{{}, {KeySecret: []byte("a secret of the tests")}, {Slot: func(*tidegate.Charge) string { return "one" }}} {
		s, err := newStore(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, rule := range []string{"r", "r%@1", "", long} {
			for _, k := range keys {
				c := tidegate.Charge{Rule: rule, Key: k, Limit: parseLimit(t, "1000/s shards 12")}
				all, err := s.keys(&c)
				if err != nil {
					t.Fatal(err)
				}
				c.Limit = parseLimit(t, "1000/s")
				plain, err := s.keys(&c)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(plain[0], "%@") || len(all) != 12 || len(plain) != 1 || all[0] != plain[0] {
					t.Fatalf("%q/%q has the keys %q and, without shards, %q", rule, k, all, plain)
				}
				for i, name := range all {
					what := fmt.Sprintf("shard %d of %q/%q", i, rule, k)
					_, own, _ := strings.Cut(name, "}") // whatever the tag
					if other, ok := seen[own]; ok {
						t.Errorf("%s and %s share the name %q", what, other, own)
					}
					seen[own] = what
				}
			}
		}
	}
}

// A take on a limit with shards finds its bucket with as many allocations as any other.
func TestShardsAllocateNoMore(t *testing.T) {
	s, err := newStore(nil)
	if err != nil {
		t.Fatal(err)
	}
	count := func(limit string) float64 {
		charges := []tidegate.Charge{{Rule: "r", Key: "k", Limit: parseLimit(t, limit), Cost: 1}}
		items := make([]item, 1)
		least := math.Inf(1) // the whole process is counted, and what an earlier test closed may still be at it
		for range 20 {
			least = min(least, testing.AllocsPerRun(100, func() {
				if err := s.fill(items, charges); err != nil {
					t.Fatal(err)
				}
				s.place(items, choice{at: s.draw(items)})
			}))
		}
		return least
	}
	if plain, shards := count("1000/s"), count("1000/s shards 8"); shards > plain {
		t.Errorf("%v allocations with shards, %v without", shards, plain)
	}
}
