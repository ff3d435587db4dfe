package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// BenchmarkWrapped measures takes of many callers who each have a context of their own, as requests have, and wait for each
// other's batches: of the store alone and within package resilience, as a service has it.
func BenchmarkWrapped(b *testing.B) {
	srv := redistest.Start(b)
	limit := tidegate.Limit{Rate: 10_000_000, Per: time.Second, Burst: 10_000_000}
	for _, wrapped := range []bool{false, true} {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("%s/%d keys", map[bool]string{false: "alone", true: "wrapped"}[wrapped], keys), func(b *testing.B) {
				var s tidegate.Store = openCached(b, srv.URL(), &Config{Timeout: time.Second})
				if wrapped {
					r, err := resilience.New(s, &resilience.Config{Timeout: time.Second, Replicas: 1})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { _ = r.Close() })
					s = r
				}
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprint("key ", i)
				}
				server := b.Context()
				var callers atomic.Int64
				b.SetParallelism(32)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					charges := []tidegate.Charge{{Rule: "api", Limit: &limit, Cost: 1}}
					dst := make([]tidegate.Decision, 0, 1)
					for i := callers.Add(1) * 101; pb.Next(); i++ {
						request, end := context.WithCancel(server)
						_ = request.Done() // which servers wait for
						charges[0].Key = names[i%int64(keys)]
						if ds, err := s.Take(request, charges, dst); err != nil || !ds[0].Allowed {
							b.Error(ds, err)
						}
						end()
					}
				})
			})
		}
	}
}
