//go:build unix

package rules

import (
	"syscall"
	"testing"
	"time"
)

// TestTenThousandRulesLoadInASecond measures the processor's time, which does not depend on what else the machine does.
func TestTenThousandRulesLoadInASecond(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes everything several times as slow")
	}
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	text := []byte(many(10_000))
	best := time.Hour
	for range 3 {
		start := spent()
		s, err := Parse("many.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		compile(s, 0, nil, time.Now)
		best = min(best, spent()-start)
	}
	t.Logf("%v of processor time", best)
	if best > time.Second {
		t.Errorf("loading took %v", best)
	}
}
