package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/tidegate-go/tidegate"
)

// decimal is a number that JSON has without an exponent, as people write it.
type decimal float64

// MarshalJSON writes as many digits as are not zero.
//
//nolint:unparam // json.Marshaler wants the error
func (d decimal) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d), 'f', -1, 64), nil
}

// seconds is the duration, to the nanosecond.
func (d decimal) seconds() time.Duration { return time.Duration(math.Round(float64(d) * 1e9)) }

// benchResult is what a run came to, as JSON. What is not known is null.
type benchResult struct {
	DecisionsPerSecond float64          `json:"decisions_per_second"`
	P50Seconds         *decimal         `json:"p50_seconds"`
	P99Seconds         *decimal         `json:"p99_seconds"`
	RedisCPUSeconds    *decimal         `json:"redis_cpu_seconds"`
	Errors             int64            `json:"errors"`
	Allowed            int64            `json:"allowed"`
	Charged            *int64           `json:"charged"`
	Denied             int64            `json:"denied"`
	Takes              int64            `json:"takes"`
	ElapsedSeconds     float64          `json:"elapsed_seconds"`
	P90Seconds         *decimal         `json:"p90_seconds"`
	P999Seconds        *decimal         `json:"p999_seconds"`
	MaxSeconds         *decimal         `json:"max_seconds"`
	Callers            int              `json:"callers"`
	Keys               int              `json:"keys"`
	Limit              string           `json:"limit"`
	Store              string           `json:"store"`
	Sources            map[string]int64 `json:"sources"`
}

func (r *benchRun) result(cpu *decimal, charged *int64) *benchResult {
	t := &r.total
	hist := hdrhistogram.New(1, int64(maxLatency), 3)
	for i := range r.shards {
		hist.Merge(r.shards[i].hist)
	}
	quantile := func(percent float64) *decimal {
		if hist.TotalCount() == 0 {
			return nil
		}
		return new(decimal(time.Duration(hist.ValueAtQuantile(percent)).Seconds()))
	}
	out := &benchResult{
		P50Seconds: quantile(50), P99Seconds: quantile(99), RedisCPUSeconds: cpu,
		Errors: t.errors, Allowed: t.allowed, Charged: charged, Denied: t.denied, Takes: t.allowed + t.denied + t.errors,
		ElapsedSeconds: math.Round(r.elapsed().Seconds()*1e6) / 1e6,
		P90Seconds:     quantile(90), P999Seconds: quantile(99.9), MaxSeconds: quantile(100),
		Callers: r.callers, Keys: len(r.keys), Sources: map[string]int64{},
	}
	if e := r.elapsed().Seconds(); e > 0 {
		out.DecisionsPerSecond = math.Round(float64(t.allowed+t.denied)/e*1e3) / 1e3
	}
	for source, n := range t.sources {
		if n > 0 {
			out.Sources[tidegate.Source(source).String()] = n
		}
	}
	return out
}

// text is the result as a table; why says what keeps charged from being known.
func (r *benchResult) text(why string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	latency := func(name string, s *decimal) {
		if s == nil {
			row(name, "not known")
			return
		}
		row(name, "%v", briefly(s.seconds()))
	}
	row("decisions/s", "%.0f", r.DecisionsPerSecond)
	latency("p50", r.P50Seconds)
	latency("p90", r.P90Seconds)
	latency("p99", r.P99Seconds)
	latency("p99.9", r.P999Seconds)
	latency("longest", r.MaxSeconds)
	if r.Store != memoryStore {
		row("Redis CPU", "%s", cpuText(r.RedisCPUSeconds, r.Allowed+r.Denied))
	}
	row("errors", "%d", r.Errors)
	row("allowed", "%d", r.Allowed)
	row("charged", "%s", chargedText(r.Charged, why))
	row("denied", "%d", r.Denied)
	var sources []string
	for _, source := range slices.Sorted(maps.Keys(r.Sources)) {
		sources = append(sources, fmt.Sprintf("%s %d", source, r.Sources[source]))
	}
	row("sources", "%s", strings.Join(sources, ", "))
	row("callers", "%d over %d keys for %v", r.Callers, r.Keys, shown(decimal(r.ElapsedSeconds).seconds()))
	row("limit", "%s", r.Limit)
	row("store", "%s", r.Store)
	_ = table.Flush() // into memory
	return strings.TrimSuffix(b.String(), "\n")
}

// briefly rounds a latency to three digits, also below a microsecond.
func briefly(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
