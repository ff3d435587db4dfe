package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/accesslog"
)

// What waits in a leaky bucket reaches the downstream when it passes: a burst of twenty is spread over the seconds after it, and
// what comes meanwhile and need not wait passes among them.
func TestDelayedRequestsCountWhenTheyPass(t *testing.T) {
	const rules = `
- {name: leaky, match: {path: /leaky}, limit: 5/s leaky-bucket queue 19}
- {name: other, match: {path: /other}, limit: 100/s}
`
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var text strings.Builder
	for range 20 {
		fmt.Fprintf(&text, "ts=%d.0001 path=/leaky\n", start.Unix())
	}
	fmt.Fprintf(&text, "ts=%d.5 path=/other\n", start.Unix()+1)
	var passed []time.Time
	report, err := Run(context.Background(), open(t, text.String(), accesslog.Options{}), &Config{
		Rules:   parse(t, rules),
		Decided: func(d *Decided) { passed = append(passed, d.At.Add(d.Decision.Delay)) },
		Outages: periods(t, "10:00:02-10:00:03", "10:00:00-10:00:01"), Replicas: 1,
	})
	if err != nil || report.Admitted != 21 || report.Delayed != 19 {
		t.Fatalf("%v, %+v", err, report)
	}
	if report.LongestDelay < 3.79 || report.LongestDelay > 3.81 {
		t.Errorf("the last waits for %v s", report.LongestDelay)
	}
	slices.SortFunc(passed, time.Time.Compare)
	if report.PeakBefore != 20 || report.PeakAfter != most(passed) || report.PeakAfter > 6 {
		t.Errorf("peaks %d and %d, want 20 and %d", report.PeakBefore, report.PeakAfter, most(passed))
	}
	if leaky := report.Rules[0]; leaky.PeakBefore != 20 || leaky.PeakAfter != 5 {
		t.Errorf("the rule: %+v", leaky)
	}
	seconds := make([]int64, 4)
	for _, at := range passed {
		seconds[at.Sub(start)/time.Second]++
	}
	if s := report.Series; !slices.Equal(s.Admitted, seconds) || !slices.Equal(s.Offered, []int64{20, 1, 0, 0}) {
		t.Errorf("over time %+v, want %v admitted", s, seconds)
	}
	// The first outage ends after a second, and the log with the request half a second later: what passes then is in no stretch.
	during, after := report.Outages[0].During, report.Outages[0].After
	if during.Offered != 20 || during.Admitted != seconds[0] || during.Peak != int(seconds[0]) {
		t.Errorf("during: %+v", during)
	}
	if want := int64(4); after.Offered != 1 || after.Admitted != want {
		t.Errorf("after: %+v, want %d admitted", after, want)
	}
	var table strings.Builder
	if err := report.WriteText(&table); err != nil || !strings.Contains(table.String(), "\n19 of the admitted wait before they pass, at most for 3.8s\n") {
		t.Errorf("%v\n%s", err, table.String())
	}
}
