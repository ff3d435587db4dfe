package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// BenchmarkLease measures a hot key with leases: one caller, and one on each processor.
func BenchmarkLease(b *testing.B) {
	srv := redistest.Start(b)
	limit := tidegate.Limit{Rate: 10_000_000, Per: time.Second, Burst: 1_000_000, Lease: 50 * time.Millisecond}
	open := func(b *testing.B) *tidegate.Limiter {
		b.Helper()
		l, err := tidegate.New(openCached(b, srv.URL(), nil), limit, nil)
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	ctx := context.Background()
	b.Run("1 caller", func(b *testing.B) {
		l := open(b)
		b.ReportAllocs()
		for b.Loop() {
			if d, err := l.Allow(ctx, "key"); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("a caller a core", func(b *testing.B) {
		l := open(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if d, err := l.Allow(ctx, "key"); err != nil || !d.Allowed {
					b.Error(d, err)
					return
				}
			}
		})
	})
}
