package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// storePatience is how long a command waits for a store: long for a service, short for a person, and enough for the last of
// many takes that start at once.
const storePatience = 2 * time.Second

// maxConcurrency bounds the goroutines of a run.
const maxConcurrency = 100_000

// takeFlags are the flags of take.
type takeFlags struct {
	bucket      bucketFlags
	rules       rulesFlags
	cost        int64
	repeat      int
	concurrency int
	interval    time.Duration
	wait        time.Duration
	json        bool
}

func newTake() *cobra.Command {
	var f takeFlags
	cmd := &cobra.Command{
		Use:   "take {--limit LIMIT --key KEY | --rules FILE --attr NAME=VALUE...}",
		Short: "Charge a cost to a bucket, once or many times",
		Long: `Take charges a cost to the bucket of a key and prints the decision.
It exits with 0 if it is allowed (all, with --repeat), 1 if it is denied (any), 2 if there is no decision.

With --rules it charges all rules that the attributes fit, all or nothing, and prints which they are.
With --repeat it prints one summary. A negative cost refunds. The bucket keeps the limit of the latest command.`,
		Example: `  tidegate take --limit "10/s burst 20" --key user:42
  tidegate take --limit 100/min --key user:42 --cost 5 --wait 10s --json
  tidegate take --rules rules.yaml --attr path=/api/x --attr user=42
  tidegate take --limit "600/s burst 100" --key k --repeat 3000 --interval 1ms --store redis://localhost:6379`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bucket.register(cmd)
	f.rules.register(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&f.cost, "cost", 1, "cost of a take; 0 peeks, a negative one refunds")
	flags.IntVar(&f.repeat, "repeat", 1, "number of takes")
	flags.IntVar(&f.concurrency, "concurrency", 1, "number of takes under way at once")
	flags.DurationVar(&f.interval, "interval", 0, "time from the start of one take to that of the next (default: none, as fast as it goes)")
	flags.DurationVar(&f.wait, "wait", 0, "longest wait for a turn (default: none, an answer at once)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// check refuses flags that do not fit each other.
func (f *takeFlags) check(limit *tidegate.Limit) error {
	switch {
	case limit != nil && limit.Algorithm == tidegate.Concurrency:
		return permitsError(limit.String())
	case f.repeat < 1:
		return fmt.Errorf("--repeat is %d: it must be at least 1", f.repeat)
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return fmt.Errorf("--concurrency is %d: it must be from 1 to %d", f.concurrency, maxConcurrency)
	case f.interval < 0:
		return fmt.Errorf("--interval is %v: it must not be negative", f.interval)
	case f.interval > 0 && int64(f.repeat) > math.MaxInt64/int64(f.interval):
		return errors.New("--repeat times --interval is longer than a computer counts: lower one of them")
	case f.wait < 0:
		return fmt.Errorf("--wait is %v: it must not be negative", f.wait)
	case f.wait > 0 && f.cost < 1:
		return fmt.Errorf("--wait goes with a cost of at least 1, and --cost is %d", f.cost)
	case f.cost >= 1<<53 || f.cost <= -1<<53:
		return fmt.Errorf("--cost is %d: it must be below 9007199254740992", f.cost)
	}
	return nil
}

func permitsError(what string) error {
	return fmt.Errorf("%q are permits, which a process holds until it releases them: take them with the library's Acquire or POST /v1/acquire of the service", what)
}

func (f *takeFlags) run(cmd *cobra.Command) error {
	byRules := f.rules.given(cmd)
	var charge tidegate.Charge
	var attributes tidegate.AttributeMap
	var err error
	if byRules {
		attributes, err = f.rules.check(cmd)
	} else {
		charge, err = f.bucket.charge(cmd, time.Now())
	}
	if err != nil {
		return err
	}
	if err := f.check(charge.Limit); err != nil {
		return err
	}
	charge.Cost = f.cost
	store, err := openStore(f.bucket.store, storePatience)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	t := &taker{store: store, charge: charge, wait: f.wait}
	if byRules {
		engine, err := f.rules.engine(cmd, store)
		if err != nil {
			return err
		}
		if f.repeat == 1 {
			return f.failedUnlessDenied(takeRules(context.WithoutCancel(ctx), cmd, engine, attributes, f.cost, f.json))
		}
		t.decide = func(ctx context.Context) (tidegate.Decision, error) { return engine.Decide(ctx, attributes, f.cost) }
	}
	if f.repeat == 1 {
		d, err := t.take(ctx)
		if err != nil {
			return f.failed(err)
		}
		return printDecision(cmd.OutOrStdout(), d, f.json)
	}
	sum := t.repeat(ctx, f.repeat, f.concurrency, f.interval)
	if ctx.Err() != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: interrupted after %d of %d takes\n", cmd.CommandPath(), sum.takes(), f.repeat)
	}
	if err := printResult(cmd.OutOrStdout(), f.json, sum.result(), sum.String()); err != nil {
		return err
	}
	switch {
	case sum.errors == 1:
		return f.failed(sum.err)
	case sum.errors > 0:
		return fmt.Errorf("%d takes failed, the first so: %w", sum.errors, f.failed(sum.err))
	case sum.denied > 0:
		return errDenied
	}
	return nil
}

// failedUnlessDenied is failed for what may also be the end of a command that said no, or could not say it.
func (f *takeFlags) failedUnlessDenied(err error) error {
	if errors.Is(err, tidegate.ErrStore) || errors.Is(err, tidegate.ErrUnsupported) {
		return f.failed(err)
	}
	return err
}

// failed says why there is no decision.
func (f *takeFlags) failed(err error) error {
	if e, ok := errors.AsType[*rules.PermitsError](err); ok {
		return permitsError(e.Rule)
	}
	switch {
	case errors.Is(err, errInterrupted):
		return errors.New("interrupted while waiting for a turn; the charge was given back")
	case errors.Is(err, tidegate.ErrUnsupported) && f.wait > 0:
		return errors.New("--wait does not go with this limit: a sliding log cannot be charged for later; use sliding-window slices 10")
	}
	return noAnswer(f.bucket.store, err)
}
