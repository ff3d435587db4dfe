package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A workload is work that contenders do in turn. The first contender is ours; peers are those that are asked for by -peers all.
type workload struct {
	name, id   string // for people, and as a benchmark of Go is named
	callers    int
	together   int // decisions that a call makes, where one takes less than to look at the clock; 0 is 1
	procs      int // GOMAXPROCS; 0 is what it is
	contenders []contender
	peers      []contender
	optional   bool // only on request
}

// A contender makes one decision a call, or as many as are made together. Caller numbers the caller, n its decisions so far.
type contender struct {
	name string
	open func(ctx context.Context) (call func(ctx context.Context, caller, n int) error, closing func(), err error)
}

// result is what one run of a contender came to.
type result struct {
	n         int64
	perSecond float64
	p50, p99  time.Duration
}

// options are what the command line says.
type options struct {
	duration    time.Duration
	runs        int
	only, peers string
	contenders  string
	programs    string
	benchfmt    bool
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "d", 2*time.Second, "how long a run takes")
	flag.IntVar(&o.runs, "runs", 5, "how many runs of each contender; the ratio is the median of those of the rounds")
	flag.StringVar(&o.only, "only", "", "regular expression: the workloads to run")
	flag.StringVar(&o.peers, "peers", "some", "whom to run beside: all, some (redis_rate and x/time/rate) or none")
	flag.StringVar(&o.contenders, "contenders", "", "regular expression: the contenders to run; ours, the first, always does")
	flag.StringVar(&o.programs, "programs", "", "directory to keep installed services in; default a temporary one")
	flag.BoolVar(&o.benchfmt, "benchfmt", false, "print a line for every run, for benchstat, instead of the table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	which, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	who, err := regexp.Compile(o.contenders)
	if err != nil {
		return fmt.Errorf("-contenders: %w", err)
	}
	if o.runs < 1 || o.duration <= 0 {
		return fmt.Errorf("-runs %d and -d %v must be above 0", o.runs, o.duration)
	}
	if !slices.Contains([]string{"all", "some", "none"}, o.peers) {
		return fmt.Errorf("-peers is %q: write all, some or none", o.peers)
	}
	redis, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := append(workloads(redis.addr), serviceWorkloads(redis.addr, cmp.Or(o.programs, dir))...)
	ws := slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return !which.MatchString(w.name) || w.optional && o.only == "" })
	if len(ws) == 0 {
		return fmt.Errorf("-only %s is the name of no workload, such as %q", o.only, all[0].name)
	}
	var f format = &table{out: out}
	if o.benchfmt {
		f = benchfmt{out}
	}
	f.header(redis.version, o.runs, o.duration)
	for _, w := range ws {
		w = w.beside(o.peers, who)
		results, err := measure(ctx, w, o.duration, o.runs)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := f.workload(w, results); err != nil {
			return err
		}
	}
	if which.MatchString(heapWork) {
		return heap(out)
	}
	return nil
}

// beside returns the workload with the contenders that are asked for.
func (w workload) beside(peers string, who *regexp.Regexp) workload {
	switch peers {
	case "none":
		w.contenders = w.contenders[:1]
	case "all":
		w.contenders = slices.Concat(w.contenders, w.peers)
	}
	ours, others := w.contenders[0], slices.Clone(w.contenders[1:])
	others = slices.DeleteFunc(others, func(c contender) bool { return !who.MatchString(c.name) })
	w.contenders = append([]contender{ours}, others...)
	return w
}

// measure runs the contenders in turn, and returns the runs of each.
func measure(ctx context.Context, w workload, duration time.Duration, runs int) ([][]result, error) {
	if w.procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(w.procs))
	}
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
	return all, nil
}

// median is the run of which as many were faster as were slower.
func median(rs []result) result {
	sorted := slices.SortedFunc(slices.Values(rs), func(a, b result) int { return cmp.Compare(a.perSecond, b.perSecond) })
	return sorted[len(sorted)/2]
}

// once runs a contender for a while, after a tenth of it to warm up.
func once(ctx context.Context, w workload, c contender, duration time.Duration) (result, error) {
	call, closing, err := c.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer closing()
	if _, err := drive(ctx, w, duration/10, call); err != nil && !errors.Is(err, errTooShort) {
		return result{}, err
	}
	return drive(ctx, w, duration, call)
}

var errTooShort = errors.New("there was no time for a single decision: give a longer -d")

// drive lets callers call in a closed loop. Where a call makes several decisions each counts as their mean. Latencies are
// written down one after the other, which costs a caller less than a histogram of its own would.
func drive(ctx context.Context, w workload, duration time.Duration, call func(context.Context, int, int) error) (result, error) {
	type outcome struct {
		n       int
		lasted  []uint32 // ns
		elapsed time.Duration
		err     error
	}
	outcomes := make(chan outcome, w.callers)
	start := time.Now()
	together := max(1, w.together)
	for c := range w.callers {
		go func() {
			ctx, cancel := context.WithCancel(ctx) // as each request has its own
			defer cancel()
			var o outcome
			before := time.Since(start) // which takes half as long as time.Now
			for o.err == nil && before < duration {
				if o.err = call(ctx, c, o.n); o.err == nil {
					o.n += together
				}
				after := time.Since(start)
				o.lasted = append(o.lasted, uint32(min((after-before)/time.Duration(together), math.MaxUint32)))
				before = after
			}
			o.elapsed = before
			outcomes <- o
		}()
	}
	total := hdrhistogram.New(1, math.MaxUint32, 3)
	n := 0
	var err error
	var elapsed time.Duration
	for range w.callers {
		o := <-outcomes
		elapsed = max(elapsed, o.elapsed)
		n += o.n
		for _, ns := range o.lasted {
			_ = total.RecordValue(int64(ns)) // which is in its range
		}
		if o.err != nil {
			err = o.err
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && n == 0 {
		err = errTooShort
	}
	return result{
		n:         int64(n),
		perSecond: float64(n) / elapsed.Seconds(),
		p50:       time.Duration(total.ValueAtQuantile(50)),
		p99:       time.Duration(total.ValueAtQuantile(99)),
	}, err
}
