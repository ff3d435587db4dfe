package resilience

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/storetest"
)

// While the shared store is well, the wrapper is as good as it.
func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			s, err := New(memstore.New(&memstore.Config{Now: now}), &Config{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Buckets: func(_ *testing.T, s tidegate.Store) int64 {
			return s.(*Store).shared.(*memstore.Store).Stats().Keys
		},
		Rounds: 20,
	})
}
