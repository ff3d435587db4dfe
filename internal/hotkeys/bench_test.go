package hotkeys

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
)

// BenchmarkObserve measures an observation of one key, of many by a Zipf law, and of ever new ones, from one goroutine and
// from one for each processor.
func BenchmarkObserve(b *testing.B) {
	const n = 1 << 16
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 5_000_000)
	one, many, each := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		one[i], many[i], each[i] = "user:42", "user:"+strconv.FormatUint(zipf.Uint64(), 10), "user:"+strconv.Itoa(i)
	}
	for name, keys := range map[string][]string{"one key": one, "zipf": many, "tail": each} {
		b.Run(name, func(b *testing.B) {
			h := open(b, Config{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Observe("rule", keys[i%n], 1, true)
			}
		})
		b.Run("parallel "+name, func(b *testing.B) {
			h := open(b, Config{})
			var starts atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(starts.Add(n / 8)); pb.Next(); i++ {
					h.Observe("rule", keys[i%n], 1, true)
				}
			})
		})
	}
}

func BenchmarkTop(b *testing.B) {
	h := open(b, Config{})
	for r := range 256 {
		for k := range 1000 {
			h.Observe("rule"+strconv.Itoa(r), "user:"+strconv.Itoa(k), int64(k), true)
		}
	}
	b.Run("a rule", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Top("rule7", 10, ByTraffic)
		}
	})
	b.Run("256 rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Top("", 10, ByTraffic)
		}
	})
}
