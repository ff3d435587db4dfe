package memstore_test

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/scenario"
	"github.com/tidegate-go/tidegate/memstore"
)

// The stories that every store tells alike: see package scenario.
func TestScenarios(t *testing.T) {
	scenario.Run(t, "../internal/algo/testdata", func(_ *testing.T, now func() time.Time) tidegate.Store {
		return memstore.New(&memstore.Config{Now: now})
	})
}
