package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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

// instant is a shared store that answers at once, and lets everything pass.
type instant struct{ tidegate.Store }

func (instant) Take(_ context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	for i := range charges {
		c := &charges[i]
		dst = append(dst, tidegate.Decision{Allowed: true, Limit: c.Limit.Burst, Remaining: 7, ResetAfter: time.Minute, Rule: c.Rule})
	}
	return dst, nil
}

func (instant) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (instant) Close() error { return nil }

// tenCharges is a take of ten rules, of a key of each.
func tenCharges(key int) []tidegate.Charge {
	charges := make([]tidegate.Charge, 10)
	for i := range charges {
		l := tidegate.Limit{Rate: 1_000_000, Per: time.Second, Burst: 1_000_000}
		charges[i] = tidegate.Charge{Rule: fmt.Sprintf("rule-number-%d", i), Key: fmt.Sprintf("tenant-%d", key), Limit: &l, Cost: 1}
	}
	return charges
}

// What the wrapper takes of a take of ten charges, of keys that everybody asks for and of many, and what of that is remembering.
func BenchmarkTenCharges(b *testing.B) {
	for _, keys := range []struct {
		name string
		n    int
	}{{"hot", 1}, {"cold", 1000}} {
		takes := make([][]tidegate.Charge, 1000)
		for i := range takes {
			takes[i] = tenCharges(i % keys.n)
			for j := range takes[i] {
				takes[i][j].Limit = takes[0][j].Limit
			}
		}
		open := func(b *testing.B) *Store {
			b.Helper()
			s, err := New(instant{}, &Config{Replicas: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			b.ReportAllocs()
			return s
		}
		b.Run(keys.name+"/take", func(b *testing.B) {
			s := open(b)
			b.RunParallel(func(pb *testing.PB) {
				ctx, dst := context.Background(), make([]tidegate.Decision, 0, 10)
				for i := rand.IntN(len(takes)); pb.Next(); i++ {
					if _, err := s.Take(ctx, takes[i%len(takes)], dst); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		b.Run(keys.name+"/note", func(b *testing.B) {
			s := open(b)
			decisions, _ := instant{}.Take(context.Background(), takes[0], nil)
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(len(takes)); pb.Next(); i++ {
					s.note(takes[i%len(takes)], decisions, s.now())
				}
			})
		})
	}
}
