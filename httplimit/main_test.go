package httplimit_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing that a middleware or a transport started outlives it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
