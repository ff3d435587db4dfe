package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A format prints what the contenders of a workload came to.
type format interface {
	header(redis string, runs int, duration time.Duration)
	workload(w workload, results [][]result) error
}

// table is the table of medians and ratios, in Markdown.
type table struct {
	out  io.Writer
	rows *tabwriter.Writer
}

func (t *table) header(redis string, runs int, duration time.Duration) {
	fmt.Fprintf(t.out, "%s, %s; medians of %d runs of %v\n\n", machine(), redis, runs, duration)
	t.rows = tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t.rows, "| work\t| contender\t| decisions/s\t| p50\t| p99\t| ours is\t|")
	fmt.Fprintln(t.rows, "|---\t|---\t|---:\t|---:\t|---:\t|---:\t|")
}

func (t *table) workload(w workload, results [][]result) error {
	for i, rs := range results {
		m, ratio := median(rs), ""
		if i > 0 {
			ratio = ratios(results[0], rs)
		}
		fmt.Fprintf(t.rows, "| %s\t| %s\t| %.0f\t| %v\t| %v\t| %s\t|\n", w.name, w.contenders[i].name,
			m.perSecond, m.p50.Round(time.Microsecond/10), m.p99.Round(time.Microsecond/10), ratio)
	}
	return t.rows.Flush()
}

// ratios tells how much faster ours was: the median of the ratios of runs that came one after the other, and the least and the
// largest of them. What slows the machine down for longer than a run is in both sides of a ratio, and not in that of two medians.
func ratios(ours, theirs []result) string {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = ours[i].perSecond / theirs[i].perSecond
	}
	slices.Sort(all)
	middle := all[len(all)/2]
	if len(all)%2 == 0 {
		middle = (middle + all[len(all)/2-1]) / 2
	}
	if len(all) == 1 {
		return fmt.Sprintf("%.2f×", middle)
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", middle, all[0], all[len(all)-1])
}

// benchfmt is the format of Go's benchmarks, a line for every run, for benchstat. Where several call at once, ns/op is the
// time from one answer to the next, of whomever.
type benchfmt struct{ out io.Writer }

func (b benchfmt) header(redis string, _ int, _ time.Duration) {
	fmt.Fprintf(b.out, "goos: %s\ngoarch: %s\npkg: github.com/tidegate-go/tidegate/bench\ncpu: %s\nredis: %s\n",
		runtime.GOOS, runtime.GOARCH, processor(), redis)
}

func (b benchfmt) workload(w workload, results [][]result) error {
	name := w.id
	if name == "" {
		name = "Work=" + w.name
	}
	for i, rs := range results {
		line := fmt.Sprintf("Benchmark%s/contender=%s-%d", name, w.contenders[i].name, runtime.GOMAXPROCS(0))
		line = strings.Map(func(r rune) rune {
			if r == ' ' || r == ',' {
				return '_'
			}
			return r
		}, line)
		for _, r := range rs {
			if _, err := fmt.Fprintf(b.out, "%s\t%d\t%.1f ns/op\t%d p50-ns\t%d p99-ns\n", line, r.n, 1e9/r.perSecond, r.p50, r.p99); err != nil {
				return err
			}
		}
	}
	return nil
}
