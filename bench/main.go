package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A workload is work that contenders do in turn. The first contender is ours.
type workload struct {
	name       string
	callers    int
	contenders []contender
}

// A contender makes one decision a call. Caller and n number the caller and its calls.
type contender struct {
	name string
	open func(ctx context.Context) (call func(ctx context.Context, caller, n int) error, closing func(), err error)
}

// result is what one run of a contender came to.
type result struct {
	perSecond float64
	p50, p99  time.Duration
}

func main() {
	duration := flag.Duration("d", 2*time.Second, "how long a run takes")
	runs := flag.Int("runs", 5, "how many runs of each contender; the ratio is that of the medians")
	only := flag.String("only", "", "regular expression: the workloads to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *duration, *runs, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, duration time.Duration, runs int, only string) error {
	which, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if runs < 1 || duration <= 0 {
		return fmt.Errorf("-runs %d and -d %v must be above 0", runs, duration)
	}
	redis, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	fmt.Fprintf(out, "%s, %d cores, %s; medians of %d runs of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), redis.version, runs, duration)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "| work\t| contender\t| decisions/s\t| p50\t| p99\t| ours is\t|")
	fmt.Fprintln(table, "|---\t|---\t|---:\t|---:\t|---:\t|---:\t|")
	for _, w := range workloads(redis.addr) {
		if !which.MatchString(w.name) {
			continue
		}
		medians, err := measure(ctx, w, duration, runs)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		for i, m := range medians {
			ratio := ""
			if i > 0 {
				ratio = fmt.Sprintf("%.2f×", medians[0].perSecond/m.perSecond)
			}
			fmt.Fprintf(table, "| %s\t| %s\t| %.0f\t| %v\t| %v\t| %s\t|\n", w.name, w.contenders[i].name,
				m.perSecond, m.p50.Round(time.Microsecond/10), m.p99.Round(time.Microsecond/10), ratio)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the contenders in turn, and returns the median of each.
func measure(ctx context.Context, w workload, duration time.Duration, runs int) ([]result, error) {
	all := make([][]result, len(w.contenders))
	for range runs {
		for i, c := range w.contenders {
			r, err := once(ctx, w, c, duration)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			all[i] = append(all[i], r)
		}
	}
	medians := make([]result, len(all))
	for i, rs := range all {
		slices.SortFunc(rs, func(a, b result) int { return int(a.perSecond - b.perSecond) })
		medians[i] = rs[len(rs)/2]
	}
	return medians, nil
}

// once runs a contender for a while, after a tenth of it to warm up.
func once(ctx context.Context, w workload, c contender, duration time.Duration) (result, error) {
	call, closing, err := c.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer closing()
	if _, err := drive(ctx, w.callers, duration/10, call); err != nil {
		return result{}, err
	}
	return drive(ctx, w.callers, duration, call)
}

// drive lets callers call in a closed loop.
func drive(ctx context.Context, callers int, duration time.Duration, call func(context.Context, int, int) error) (result, error) {
	type outcome struct {
		n    int64
		hist *hdrhistogram.Histogram
		err  error
	}
	outcomes := make(chan outcome, callers)
	start := time.Now()
	for c := range callers {
		go func() {
			o := outcome{hist: hdrhistogram.New(1, int64(time.Minute), 3)}
			for n := 0; ; n++ {
				before := time.Now()
				if before.Sub(start) >= duration || ctx.Err() != nil {
					break
				}
				if o.err = call(ctx, c, n); o.err != nil {
					break
				}
				o.n++
				_ = o.hist.RecordValue(int64(time.Since(before))) // a call of over a minute is beside the point
			}
			outcomes <- o
		}()
	}
	total := hdrhistogram.New(1, int64(time.Minute), 3)
	var n int64
	var err error
	for range callers {
		o := <-outcomes
		n += o.n
		total.Merge(o.hist)
		if o.err != nil {
			err = o.err
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return result{
		perSecond: float64(n) / time.Since(start).Seconds(),
		p50:       time.Duration(total.ValueAtQuantile(50)),
		p99:       time.Duration(total.ValueAtQuantile(99)),
	}, err
}
