package storetest_test

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/storetest"
)

// In a _test.go file of a store this is func TestConformance(t *testing.T).
func ExampleRun() {
	_ = func(t *testing.T) {
		t.Helper()
		storetest.Run(t, storetest.Harness{
			New: func(_ *testing.T, now func() time.Time) tidegate.Store {
				return memstore.New(&memstore.Config{Now: now})
			},
		})
	}
	// Output:
}
