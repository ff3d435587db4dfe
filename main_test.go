package tidegate_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing that a test starts outlives it: neither a store's goroutine nor a caller that waits.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
