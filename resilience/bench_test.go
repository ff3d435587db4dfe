package resilience

import (
	"context"
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// What the wrapper adds to a take of a store in memory, and what a take costs while the shared store is away.
func BenchmarkTake(b *testing.B) {
	for _, away := range []bool{false, true} {
		name := map[bool]string{false: "store", true: "fallback"}[away]
		b.Run(name, func(b *testing.B) {
			s, err := New(memstore.New(nil), &Config{Replicas: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if away {
				s.breaker.set(true)
				s.mu.Lock()
				s.flaps.holdoff = 1 << 60
				s.mu.Unlock()
			}
			l := tidegate.Limit{Rate: 1_000_000, Per: 1e9, Burst: 1_000_000}
			charges := []tidegate.Charge{{Rule: "api", Key: "k", Limit: &l, Cost: 1}}
			dst := make([]tidegate.Decision, 0, 1)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Take(ctx, charges, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
