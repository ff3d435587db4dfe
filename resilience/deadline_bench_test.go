package resilience

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// What the deadline of a take costs whose caller has a context of its own, as a request has, over a store that answers at once.
// The first is that context alone, which is in the others too.
func BenchmarkDeadline(b *testing.B) {
	l := tidegate.Limit{Rate: 1_000_000, Per: time.Second, Burst: 1_000_000}
	run := func(name string, f func(s *Store, ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision)) {
		b.Run(name, func(b *testing.B) {
			s, err := New(instant{}, &Config{Replicas: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			server := b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				charges := []tidegate.Charge{{Rule: "api", Key: "k", Limit: &l, Cost: 1}}
				dst := make([]tidegate.Decision, 0, 1)
				for pb.Next() {
					request, end := context.WithCancel(server)
					_ = request.Done() // which servers wait for
					f(s, request, charges, dst)
					end()
				}
			})
		})
	}
	run("nothing", func(*Store, context.Context, []tidegate.Charge, []tidegate.Decision) {})
	run("unbounded", func(s *Store, ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) {
		begun, _ := s.breaker.begin()
		if _, _, err := s.ask(ctx, ctx, true, begun, charges, dst); err != nil {
			b.Error(err)
		}
	})
	run("take", func(s *Store, ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) {
		if _, err := s.Take(ctx, charges, dst); err != nil {
			b.Error(err)
		}
	})
}
