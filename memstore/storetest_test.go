package memstore

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(_ *testing.T, now func() time.Time) tidegate.Store {
			return New(&Config{Now: now})
		},
		Buckets: func(_ *testing.T, s tidegate.Store) int64 {
			return s.(*Store).Stats().Keys
		},
	})
}
