package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/redisstore"
)

const (
	// benchLimit refuses nothing: a thousand million takes of one key take Redis more than half an hour. It is a plain bucket, the
	// commonest limit, and so slow that what was charged can be read back to the token: see benchRun.reread.
	benchLimit = "1/s burst 1000000000"

	maxBenchKeys = 1_000_000 // what a memory store holds
	maxBenchTime = 24 * time.Hour
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a store decides, and whether replicas keep a limit",
		Args:  commandNamed,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchStore(), newBenchReplicas())
	return cmd
}

// benchFlags are the flags of bench store.
type benchFlags struct {
	store    string
	limit    string
	keys     int
	callers  int
	duration time.Duration
	json     bool
}

func newBenchStore() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "store --store STORE",
		Short: "Measure how fast a store decides",
		Long: `Bench store lets callers take at a store, each again as soon as it is answered, and prints how many decisions a second
that were, how long they took, and what they cost Redis. Ctrl-C ends it early, with what was measured so far.

Its buckets have a rule and names of their own, so that they meet no others, and are deleted at the end. Of a run that is
killed they stay: redis-cli --scan --pattern '*` + benchRule + `/*' lists them. It asks Redis also for INFO.

Without --limit nothing is refused. Refusals are faster, since the client remembers them: sources tells.

charged is what the store says was charged, to be compared with allowed; null where that cannot be read back to the token:
of a limit of which a token came back, or a window ended, before all was read; of sliding windows, warm-ups, leases and
shards.

It exits with 0 if it ran, whatever it found; 1 if charged is not what was allowed; 2 if it could not run.`,
		Example: `  tidegate bench store --store redis://localhost:6379
  tidegate bench store --store redis://localhost:6379 --keys 1 --callers 256 --duration 5s --json
  tidegate bench store --store redis://localhost:6379 --limit "100/s burst 100"`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "", storeUsage)
	flags.StringVar(&f.limit, "limit", benchLimit, "limit of each key")
	flags.IntVar(&f.keys, "keys", 10_000, "number of keys, asked for equally often")
	flags.IntVar(&f.callers, "callers", 64, "number of callers at once")
	flags.DurationVar(&f.duration, "duration", 5*time.Second, "how long to measure")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	complete(cmd, "store", storeExamples...)
	complete(cmd, "limit", benchLimit, "100/s burst 100", "1000/day fixed-window")
	return cmd
}

// check refuses what cannot be run, and returns the limit.
func (f *benchFlags) check() (tidegate.Limit, error) {
	limit, err := tidegate.ParseLimit(f.limit)
	switch {
	case err != nil:
		return limit, err
	case limit.Algorithm == tidegate.Concurrency:
		return limit, fmt.Errorf("%q are permits, which a caller would have to release: give a limit with a period, as in --limit %q", limit, "100/s")
	case f.keys < 1 || f.keys > maxBenchKeys:
		return limit, fmt.Errorf("--keys is %d: it must be from 1 to %d", f.keys, maxBenchKeys)
	case f.callers < 1 || f.callers > maxConcurrency:
		return limit, fmt.Errorf("--callers is %d: it must be from 1 to %d", f.callers, maxConcurrency)
	case f.duration <= 0 || f.duration > maxBenchTime:
		return limit, fmt.Errorf("--duration is %v: it must be above 0 and at most 24h, as in --duration 5s", f.duration)
	}
	return limit, nil
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	limit, err := f.check()
	if err != nil {
		return err
	}
	tap := &redisTap{cluster: isCluster(storeName(f.store))}
	store, err := openStoreWith(f.store, &redisstore.Config{Timeout: storePatience, Hooks: []redis.Hook{tap}})
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()

	r := newBenchRun(store, &limit, rand.Text()[:8], f.keys, f.callers)
	if !cmd.Flags().Changed("limit") {
		r.prefill = int64(f.duration/time.Second) + 60 // and so long may be needed before and after
	}
	err = f.measure(ctx, cmd, r, tap)
	if left, cause := r.reset(); left > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d of the buckets could not be deleted: %v; redis-cli --scan --pattern '*%s/%s*' lists them\n",
			cmd.CommandPath(), left, noAnswer(f.store, cause), benchRule, r.id)
	}
	return err
}

func (f *benchFlags) measure(ctx context.Context, cmd *cobra.Command, r *benchRun, tap *redisTap) error {
	say := func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), cmd.CommandPath()+": "+format+"\n", args...)
	}
	if err := r.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted before the first take")
		}
		return noAnswer(f.store, err)
	}
	before, err := tap.cpu()
	if err != nil {
		say("what Redis spends will not be known: %v", noAnswer(f.store, err))
	}
	showing := progress(terminal(cmd.ErrOrStderr()), r, f.duration)
	r.drive(ctx, f.duration)
	showing()
	spent := before.until(tap)
	if ctx.Err() != nil {
		say("interrupted after %v of %v", shown(r.elapsed()), f.duration)
	}
	charged, why := r.reread()
	result := r.result(spent, charged)
	result.Limit, result.Store = r.limit.String(), shownStore(storeName(f.store))
	if result.Store == "" {
		result.Store = memoryStore
	}
	if err := printResult(cmd.OutOrStdout(), f.json, result, result.text(why)); err != nil {
		return err
	}
	for _, e := range r.total.causes.first {
		say("%d takes failed: %v", r.total.causes.count[e.key], noAnswer(f.store, e.err))
	}
	if r.prefill > 0 && r.total.denied > 0 {
		say("the limit was meant to refuse nothing and was used up: give more --keys or a shorter --duration")
	}
	if charged != nil && (*charged < r.total.allowed || *charged > r.total.allowed+r.total.errors) {
		return &exitError{exitDenied, fmt.Errorf("the store allowed %d and says that %d were charged: it lost some, or counts wrongly", r.total.allowed, *charged)}
	}
	return nil
}

// terminal is the writer, if a person looks at it, else nil.
func terminal(w io.Writer) io.Writer {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return w
}

// progress shows how fast it goes and how long it still takes, until the function that it returns is called.
func progress(w io.Writer, r *benchRun, duration time.Duration) (end func()) {
	if w == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-stop:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
				gone := time.Since(start)
				fmt.Fprintf(w, "\r\x1b[K%.0f decisions/s, %v left", float64(r.decided())/gone.Seconds(), max(0, duration-gone).Round(time.Second))
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
