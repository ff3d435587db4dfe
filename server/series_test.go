package server

import (
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidegate-go/tidegate"
)

// Counts are told as the vector of the registry would tell them, from however many goroutines they come, and no series is
// there before its first one.
func TestDecisionSeries(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s := newDecisionSeries(r, prometheus.CounterOpts{Name: "n", Help: "h"}, "allowed", "denied")
	want := `# HELP n h
# TYPE n counter
n{outcome="allowed",rule="",source="unlimited"} 8000
n{outcome="allowed",rule="a",source="store"} 8000
n{outcome="denied",rule="a",source="denied-cache"} 8000
n{outcome="denied",rule="b",source="Source(200)"} 8000
n{outcome="denied",rule="b",source="shadow"} 8000
`
	if n := testutil.CollectAndCount(s.vec); n != 0 {
		t.Errorf("%d series before anything was counted", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				s.inc("a", 0, tidegate.SourceStore)
				s.inc("a", 1, tidegate.SourceDeniedCache)
				s.inc("b", 1, tidegate.SourceShadow)
				s.inc("b", 1, 200)
				s.inc("", 0, tidegate.SourceUnlimited)
			}
		})
	}
	wg.Wait()
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func BenchmarkDecisionSeries(b *testing.B) {
	s := newDecisionSeries(prometheus.NewRegistry(), prometheus.CounterOpts{Name: "n", Help: "h"}, "allowed", "denied")
	rules := []string{"checkout/remote_address", "checkout/remote_address/path"}
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.inc(rules[i%2], i%2, tidegate.SourceStore)
		}
	})
	b.Run("by=library", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.vec.WithLabelValues(rules[i%2], s.outcomes[i%2], tidegate.SourceStore.String()).Inc()
		}
	})
}
