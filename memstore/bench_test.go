package memstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// BenchmarkTake measures a take of one charge on the default clock, allowed and refused.
func BenchmarkTake(b *testing.B) {
	for name, text := range algorithms {
		l := limit(b, text)
		if l.Algorithm == tidegate.Concurrency {
			continue // see BenchmarkAcquire
		}
		allow := *l
		if l.Algorithm == tidegate.TokenBucket || l.Algorithm == tidegate.LeakyBucket {
			allow = tidegate.Limit{Rate: 1_000_000_000, Per: time.Second, Algorithm: l.Algorithm}
			if l.Algorithm == tidegate.LeakyBucket {
				allow.Queue = 1_000_000_000
			}
		} else if l.Algorithm != tidegate.SlidingLog {
			allow.Rate = 1_000_000_000_000
		}
		if l.Algorithm != tidegate.SlidingLog {
			b.Run("allow/"+name, func(b *testing.B) { benchmarkTake(b, &allow, 1, true) })
		}
		b.Run("deny/"+name, func(b *testing.B) { benchmarkTake(b, l, 20, false) })
	}
	// A log has room for so many only: it takes one and gives it back.
	b.Run("allow/sliding log", func(b *testing.B) {
		s := New(nil)
		defer s.Close()
		charge := [1]tidegate.Charge{{Rule: "rule", Key: "key", Limit: limit(b, "1000/min sliding-log")}}
		var dst [1]tidegate.Decision
		ctx := context.Background()
		charge[0].Cost = 500
		_, _ = s.Take(ctx, charge[:], dst[:0])
		b.ReportAllocs()
		for n := int64(1); b.Loop(); n = -n {
			charge[0].Cost = n
			if ds, err := s.Take(ctx, charge[:], dst[:0]); err != nil || !ds[0].Allowed {
				b.Fatal(ds, err)
			}
		}
	})
}

func benchmarkTake(b *testing.B, l *tidegate.Limit, cost int64, allowed bool) {
	b.Helper()
	s := New(nil)
	defer s.Close()
	charge := [1]tidegate.Charge{{Rule: "rule", Key: "key", Limit: l, Cost: 1}}
	var dst [1]tidegate.Decision
	ctx := context.Background()
	if _, err := s.Take(ctx, charge[:], dst[:0]); err != nil {
		b.Fatal(err)
	}
	for !allowed { // used up, and asked for all
		if ds, err := s.Take(ctx, charge[:], dst[:0]); err != nil {
			b.Fatal(err)
		} else if !ds[0].Allowed {
			break
		}
	}
	charge[0].Cost = cost
	b.ReportAllocs()
	for b.Loop() {
		if ds, err := s.Take(ctx, charge[:], dst[:0]); err != nil || ds[0].Allowed != allowed {
			b.Fatal(ds, err)
		}
	}
}

// BenchmarkTakeParallel measures takes of many goroutines, on one key and on many.
func BenchmarkTakeParallel(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(strconv.Itoa(keys)+" keys", func(b *testing.B) {
			s := New(nil)
			defer s.Close()
			l := limit(b, "1000000/s burst 1000000")
			names := make([]string, keys)
			for i := range names {
				names[i] = "user:" + strconv.Itoa(i)
			}
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				charge := [1]tidegate.Charge{{Rule: "rule", Limit: l, Cost: 1}}
				var dst [1]tidegate.Decision
				for n := int(callers.Add(7919)); pb.Next(); n += 7919 {
					charge[0].Key = names[n%keys]
					if _, err := s.Take(context.Background(), charge[:], dst[:0]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkTakeSeveral measures a take of three charges.
func BenchmarkTakeSeveral(b *testing.B) {
	s := New(nil)
	defer s.Close()
	charges := make([]tidegate.Charge, 3)
	for i, text := range []string{"1000000000/s burst 1000000000", "1000000000000/min fixed-window", "1000000000000/day tz UTC"} {
		charges[i] = tidegate.Charge{Rule: strconv.Itoa(i), Key: "key", Limit: limit(b, text), Cost: 1}
	}
	dst := make([]tidegate.Decision, 0, 3)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(context.Background(), charges, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewKeys measures takes that each add a bucket to a full store, and so drive another one out.
func BenchmarkNewKeys(b *testing.B) {
	s := New(&Config{MaxKeys: 10_000})
	defer s.Close()
	charge := [1]tidegate.Charge{{Rule: "rule", Limit: limit(b, "10/h burst 20"), Cost: 1}}
	var dst [1]tidegate.Decision
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		charge[0].Key = strconv.Itoa(n)
		if _, err := s.Take(context.Background(), charge[:], dst[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquire measures taking a permit and giving it back, beside 50 others.
func BenchmarkAcquire(b *testing.B) {
	s := New(nil)
	defer s.Close()
	charge := [1]tidegate.Charge{{Rule: "rule", Key: "key", Limit: limit(b, "100 concurrent"), Cost: 1}}
	var dst [1]tidegate.Decision
	ctx := context.Background()
	for n := range 50 {
		charge[0].ID = strconv.Itoa(n)
		_, _ = s.Take(ctx, charge[:], dst[:0])
	}
	charge[0].ID = "mine"
	b.ReportAllocs()
	for b.Loop() {
		if ds, err := s.Take(ctx, charge[:], dst[:0]); err != nil || !ds[0].Allowed {
			b.Fatal(ds, err)
		}
		if err := s.Release(ctx, "mine", charge[:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLimiter measures what a caller of the root package waits for: the view of one key, and a key among many.
func BenchmarkLimiter(b *testing.B) {
	s := New(nil)
	defer s.Close()
	l, err := tidegate.New(s, tidegate.Limit{Rate: 1_000_000_000, Per: time.Second, Burst: 1_000_000_000}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("one key", func(b *testing.B) {
		k := l.Key("key")
		b.ReportAllocs()
		for b.Loop() {
			if d, err := k.Allow(ctx); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("100000 keys", func(b *testing.B) {
		names := make([]string, 100_000)
		for i := range names {
			names[i] = "user:" + strconv.Itoa(1_000_000+i)
			_, _ = l.Allow(ctx, names[i])
		}
		b.ReportAllocs()
		for n := 0; b.Loop(); n += 7919 {
			if d, err := l.Allow(ctx, names[n%len(names)]); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
}

// BenchmarkLimiterParallel measures the view of one key in the hands of a caller a core.
func BenchmarkLimiterParallel(b *testing.B) {
	s := New(nil)
	defer s.Close()
	l, err := tidegate.New(s, tidegate.Limit{Rate: 1_000_000_000, Per: time.Second, Burst: 1_000_000_000}, nil)
	if err != nil {
		b.Fatal(err)
	}
	k := l.Key("key")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if d, err := k.Allow(ctx); err != nil || !d.Allowed {
				b.Error(d, err)
				return
			}
		}
	})
}
