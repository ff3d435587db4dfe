//go:build !race

package experiment

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// An outage is where it should be, the limit holds in it, and the downstream sees the limit's rate, not a part of it. The
// bounds leave room for a busy machine, and one that is too busy is given two more tries; how well it holds is measured by
// the command.
func TestRunOutage(t *testing.T) {
	const tries = 3
	redistest.Start(t)
	for _, fault := range []Fault{Kill, Stop} {
		t.Run(string(fault), func(t *testing.T) {
			p := small(t, Outage, func(c *Config) { c.Duration, c.Fault = MinOutage, fault })
			for n := 1; ; n++ {
				tr, err := p.Run(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				r := tr.Result()
				t.Logf("%+v, away from %v to %v", r, tr.outage.from, tr.outage.to)
				if tr.outage.from < MinOutage/3 || tr.outage.to < 2*MinOutage/3 {
					t.Fatalf("away from %v to %v", tr.outage.from, tr.outage.to)
				}
				held := tr.outage.from <= MinOutage/3+time.Second && r.Errors == 0 && *r.OutageMean >= 36 && *r.OutageMean <= 72 &&
					*r.OutagePeakSecond <= 90 && *r.RecoveryPeakSecond <= 90
				switch {
				case held:
					return
				case n == tries:
					t.Fatalf("%d errors, mean %v, peak %d, recovery %d", r.Errors, *r.OutageMean, *r.OutagePeakSecond, *r.RecoveryPeakSecond)
				}
			}
		})
	}
}
