package redistest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// The environment variables that this package reads.
const (
	envBinary  = "TIDEGATE_REDIS_SERVER"
	envRequire = "TIDEGATE_REQUIRE_SERVERS"
)

var sayMissing sync.Once

// binary returns the path of the server's binary. Without one it skips the test, or fails it where servers are
// required.
func binary(tb testing.TB) string {
	tb.Helper()
	name := cmp.Or(os.Getenv(envBinary), "redis-server")
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	msg := fmt.Sprintf("redistest: no %s here (%v); `make test` installs it", name, err)
	if os.Getenv(envRequire) != "" {
		tb.Fatalf("%s. %s is set, so this is a failure.", msg, envRequire)
	}
	sayMissing.Do(func() {
		fmt.Fprintln(os.Stderr, msg+"; every test that needs it is skipped")
	})
	tb.Skip(msg)
	return ""
}
