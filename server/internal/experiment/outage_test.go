//go:build !race

package experiment

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// An outage is where it should be, the limit holds in it, and the downstream sees the limit's rate, not a part of it. The
// bounds leave room for a busy machine; how well it holds is measured by the command.
func TestRunOutage(t *testing.T) {
	redistest.Start(t)
	for _, fault := range []Fault{Kill, Stop} {
		t.Run(string(fault), func(t *testing.T) {
			p := small(t, Outage, func(c *Config) { c.Duration, c.Fault = MinOutage, fault })
			tr, err := p.Run(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := tr.Result()
			t.Logf("%+v, away from %v to %v", r, tr.outage.from, tr.outage.to)
			if tr.outage.from < MinOutage/3 || tr.outage.from > MinOutage/3+time.Second || tr.outage.to < 2*MinOutage/3 {
				t.Errorf("away from %v to %v", tr.outage.from, tr.outage.to)
			}
			if r.Errors != 0 || *r.OutageMean < 36 || *r.OutageMean > 72 || *r.OutagePeakSecond > 90 || *r.RecoveryPeakSecond > 90 {
				t.Errorf("mean %v, peak %d, recovery %d", *r.OutageMean, *r.OutagePeakSecond, *r.RecoveryPeakSecond)
			}
		})
	}
}
