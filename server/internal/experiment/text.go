package experiment

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text tells runs as a table, and what the downstream saw over time as a line for each.
func Text(traces []*Trace) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "run\toffered\tadmitted\tpeak 1s\tafter start\tmean\tstddev\toutage mean\toutage peak\trecovery peak\terrors\twait p99\twait max\t")
	for _, t := range traces {
		r := t.Result()
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\t%s\t%s\t%d\t%v\t%v\t\n", t.name(), r.Offered, r.Admitted,
			r.PeakSecond, r.PeakSecondAfterStart, r.SteadyMean, r.SteadyStddev,
			orDash(r.OutageMean, "%.1f"), orDash(r.OutagePeakSecond, "%d"), orDash(r.RecoveryPeakSecond, "%d"),
			r.Errors, milliseconds(r.WaitP99Seconds), milliseconds(r.WaitMaxSeconds))
	}
	_ = table.Flush() // into memory
	b.WriteByte('\n')
	lines(&b, traces)
	return strings.TrimSuffix(b.String(), "\n")
}

// name is how a run is told from others.
func (t *Trace) name() string { return string(t.plan.Scenario) + " " + string(t.plan.Load) }

func orDash[T any](v *T, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func milliseconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}

const sparks = 60 // in a line

// lines draws what the downstream saw, all runs by one scale, and under an outage when the store was away.
func lines(b *strings.Builder, traces []*Trace) {
	most, longest := 1, 0
	all := make([][]int, len(traces))
	for i, t := range traces {
		all[i] = t.arrivals.bins(t.span(), t.plan.Duration)
		most = max(most, slices.Max(all[i]))
		longest = max(longest, len(t.name()))
	}
	for i, t := range traces {
		fmt.Fprintf(b, "%*s  %s\n", longest, t.name(), sparkline(all[i], most))
		if o := t.outage; o.to > 0 {
			from, to := int(o.from/t.span()), min(sparks, int((o.to+t.span()-1)/t.span()))
			fmt.Fprintf(b, "%*s  %s%s\n", longest, "store away", strings.Repeat(" ", from), strings.Repeat("▔", max(1, to-from)))
		}
	}
	if len(traces) > 0 {
		span := traces[0].span()
		fmt.Fprintf(b, "%*s  each step %v, the highest %d requests, %.0f/s\n", longest, "", span, most, float64(most)/span.Seconds())
	}
}

// span is the length of a step of a line.
func (t *Trace) span() time.Duration { return (t.plan.Duration + sparks - 1) / sparks }

var levels = []rune(" ▁▂▃▄▅▆▇█")

// sparkline draws each count as a bar; only what is nothing at all has none.
func sparkline(counts []int, most int) string {
	line := make([]rune, len(counts))
	top := len(levels) - 1
	for i, n := range counts {
		line[i] = levels[min(top, (n*top+most-1)/most)]
	}
	return string(line)
}
