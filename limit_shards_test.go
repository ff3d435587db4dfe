package tidegate_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidegate-go/tidegate"
)

func TestValidateShards(t *testing.T) {
	for _, test := range []struct {
		limit  string
		shards int
		want   string
	}{
		{"1000/s", 0, ""},
		{"1000/s", 1, ""},
		{"1000/s", 2, ""},
		{"1000/s", 256, ""},
		{"1000/s", 257, "257 shards"},
		{"1000/s", -1, "-1 shards"},
		{"1000/s", math.MaxInt, "shards"},
		{"1000/s", math.MinInt, "shards"},
		{"1000/s burst 7", 7, ""},
		{"1000/s burst 7", 8, "8 shards of a burst of 7"},
		{"7/s fixed-window", 7, ""},
		{"7/s fixed-window", 8, "8 shards of a window of 7"},
		{"7/month", 8, "8 shards of a window of 7"},
		{"7/min sliding-window slices 6", 7, ""},
		{"7/min sliding-window slices 6", 8, "8 shards of a window of 7"},
		{"2/9125day", 2, ""}, // 25 years
		{"2/9126day", 2, "2 times the period"},
		{"256/18250day", 256, "256 times the period"},
		{"256/18250day fixed-window", 256, ""},
		{"2251799813681/s", 2, "cannot be counted exactly"}, // its 2 s are twice as many ticks
		{"100/s warmup 16s", 2, "a warmup"},
		{"100/s warmup 16s", 1, ""},
		{"100/s leaky-bucket queue 10", 2, "leaky-bucket limits cannot be split"},
		{"100/s sliding-log", 2, "sliding-log limits cannot be split"},
		{"10 concurrent", 2, "concurrent limits cannot be split"},
		{"10 concurrent", 1, "concurrent limits cannot be split"},
		{"none", 2, "none limits cannot be split"},
		{"unlimited", 2, "unlimited limits cannot be split"},
	} {
		t.Run(fmt.Sprintf("%s in %d", test.limit, test.shards), func(t *testing.T) {
			checkProblem(t, limit(test.limit, func(l *tidegate.Limit) { l.Shards = test.shards }), test.want)
		})
	}
}

// Neither a lease nor shards change how the whole is counted.
func TestResolutionOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		want, err := l.Resolution()
		if err != nil {
			t.Skip("not a good limit")
		}
		got, err := drawSpread(t, l).Resolution()
		if err == nil && got != want {
			t.Fatalf("the tick of %+v is %v, and %v with a lease and shards", plain(l), want, got)
		}
	})
}

func TestShard(t *testing.T) {
	for _, test := range []struct {
		limit string
		want  []string
	}{
		{"10/s", []string{"10/s"}},
		{"600/s burst 100 lease 50ms", []string{"600/s burst 100"}},
		{"10/s shards 3", []string{"10/3s burst 4", "10/3s burst 3", "10/3s burst 3"}},
		{"600/min burst 100 lease 50ms shards 4", []string{"600/4min burst 25", "600/4min burst 25", "600/4min burst 25", "600/4min burst 25"}},
		{"8/min fixed-window shards 3", []string{"3/min fixed-window", "3/min fixed-window", "2/min fixed-window"}},
		{"3/month shards 2", []string{"2/month fixed-window", "1/month fixed-window"}},
		{"3/day tz Asia/Shanghai shards 2", []string{"2/day fixed-window tz Asia/Shanghai", "1/day fixed-window tz Asia/Shanghai"}},
		{"7/min sliding-window slices 6 shards 2", []string{"4/min sliding-window slices 6", "3/min sliding-window slices 6"}},
	} {
		l, err := tidegate.ParseLimit(test.limit)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, want := range test.want {
			if got := l.Shard(i); got.String() != want {
				t.Errorf("%s: shard %d is %s, want %s", test.limit, i, got, want)
			}
		}
	}
}

// All shards together are the whole: what they hold adds up to what it holds, and what they give back to what it does.
// Each is a limit that can be counted.
func TestShardsAddUp(t *testing.T) {
	split := 0
	rapid.Check(t, func(t *rapid.T) {
		l := drawSpread(t, drawLimit(t))
		if l.Validate() != nil {
			t.Skip("not a good limit")
		}
		n := max(1, l.Shards)
		if n > 1 {
			split++
		}
		capacity, rate := int64(0), new(big.Rat) // the rate in tokens a nanosecond
		for i := range n {
			shard := l.Shard(i)
			if err := shard.Validate(); err != nil {
				t.Fatalf("shard %d of %v is %v: %v", i, l, shard, err)
			}
			if shard.Shards != 0 || shard.Lease != 0 || shard != shard.Normalize() {
				t.Fatalf("shard %d of %v is %+v", i, l, plain(shard))
			}
			capacity += shard.Capacity()
			if shard.Per > 0 {
				rate.Add(rate, big.NewRat(shard.Rate, int64(shard.Per)))
			}
			if d := l.Shard(0).Capacity() - shard.Capacity(); d != 0 && d != 1 {
				t.Fatalf("shards 0 and %d of %v differ by %d", i, l, d)
			}
		}
		if capacity != l.Capacity() {
			t.Fatalf("%d shards of %v hold %d, the whole %d", n, l, capacity, l.Capacity())
		}
		if l.Per > 0 && rate.Cmp(big.NewRat(l.Rate, int64(l.Per))) != 0 {
			t.Fatalf("%d shards of %v give %v a nanosecond", n, l, rate)
		}
	})
	if split == 0 {
		t.Error("no limit with shards was tried")
	}
}

// drawSpread adds a lease and shards to a limit, each now and then, whether it can have them or not.
func drawSpread(t *rapid.T, l tidegate.Limit) tidegate.Limit {
	if rapid.Bool().Draw(t, "leased") {
		l.Lease = time.Duration(logarithmic(t, "lease", 1000, 10e6)) * time.Microsecond
	}
	if rapid.Bool().Draw(t, "split") {
		l.Shards = int(logarithmic(t, "shards", 1, 256))
	}
	return l
}
