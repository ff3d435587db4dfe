package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/server/internal/experiment"
)

// replicasFlags are the flags of bench replicas.
type replicasFlags struct {
	store     string
	replicas  int
	limit     string
	offered   int
	skew      string
	duration  time.Duration
	load      string
	scenarios string
	fault     string
	json      bool
	svg       string
}

// defaultSkew is the demand's for three replicas.
const defaultSkew = "60,25,15"

func newBenchReplicas() *cobra.Command {
	var f replicasFlags
	cmd := &cobra.Command{
		Use:   "replicas",
		Short: "Measure what a downstream sees of a limit that replicas keep, through an outage of their store",
		Long: `Bench replicas starts replicas, which are HTTP servers with a store of their own, in front of a downstream that counts,
sends them requests on a schedule, and prints what the downstream saw. All of it is on the loopback interface.

Scenarios:
  local    each replica has its part of the rate, and the burst, in its own memory
  shared   all share one bucket in Redis
  outage   the same, under the steady load; Redis is killed (or stopped) at a third of the time and back at two thirds

Loads:
  steady   --offered requests a second
  pulse    the same, but quiet one second in three
  legal    95 % of the limit, of which 96 % go to the first replica

peak 1s is the most in any sliding second; after start, in one that begins later than in the first second. The outage is
every sliding second that overlaps the time from the fault to the return of Redis, the recovery every one that ends later.
A wait is from when a request was due to its answer. Each time, the same requests are due at the same replicas. Beside other
work of the machine waits are long, and say more of that than of the limit. Before an outage replicas learn their shares of
the load, for which 12s are enough and 9s, the least, are not quite.

The store auto is a redis-server of this command's own, from PATH. One that is named by a URL is left as it was, and is
not taken away. It exits with 0 if it ran, whatever it found.`,
		Example: `  tidegate bench replicas
  tidegate bench replicas --load all --svg replicas.svg
  tidegate bench replicas --scenario outage --fault stop --json
  tidegate bench replicas --replicas 5 --skew 40,25,15,12,8`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", experiment.Auto, "auto, or a URL such as redis://localhost:6379")
	flags.IntVar(&f.replicas, "replicas", 3, "number of replicas")
	flags.StringVar(&f.limit, "limit", "600/s burst 100", "limit of all replicas together")
	flags.IntVar(&f.offered, "offered", 2000, "requests a second, of the loads steady and pulse")
	flags.StringVar(&f.skew, "skew", "", "each replica's part of the load (default "+defaultSkew+" for three, else even)")
	flags.DurationVar(&f.duration, "duration", 12*time.Second, "how long a run lasts")
	flags.StringVar(&f.load, "load", string(experiment.Steady), "steady, pulse, legal, several with commas, or all")
	flags.StringVar(&f.scenarios, "scenario", "local,shared,outage", "scenarios, with commas")
	flags.StringVar(&f.fault, "fault", string(experiment.Kill), "how Redis goes away: kill or stop")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.svg, "svg", "", "file to draw the runs into")
	complete(cmd, "store", experiment.Auto, "redis://localhost:6379")
	complete(cmd, "load", "steady", "pulse", "legal", "all")
	complete(cmd, "scenario", "local,shared,outage", "local", "shared", "outage")
	complete(cmd, "fault", "kill", "stop")
	if err := cmd.MarkFlagFilename("svg", "svg"); err != nil {
		panic(err) // the flag does not exist: a slip in this program
	}
	return cmd
}

// plan reads the flags. The error says in one line which is wrong, and what to write.
func (f *replicasFlags) plan(flags *pflag.FlagSet) (plans []experiment.Plan, err error) {
	c := &experiment.Config{
		Store: f.store, Replicas: f.replicas, Offered: f.offered, Duration: f.duration, Fault: experiment.Fault(f.fault),
	}
	if c.Limit, err = tidegate.ParseLimit(f.limit); err != nil {
		return nil, err
	}
	if c.Skew, err = f.parts(flags); err != nil {
		return nil, err
	}
	if !flags.Changed("replicas") && flags.Changed("skew") {
		c.Replicas = len(c.Skew)
	}
	if c.Loads, err = listed("load", f.load, experiment.ParseLoad); err != nil {
		if f.load != "all" {
			return nil, err
		}
		c.Loads = experiment.Loads
	}
	if c.Scenarios, err = listed("scenario", f.scenarios, experiment.ParseScenario); err != nil {
		return nil, err
	}
	// Of the scenarios that nobody asked for, those are left out that there is no way to run.
	if !flags.Changed("scenario") && (f.store != experiment.Auto || !slices.Contains(c.Loads, experiment.Steady)) {
		c.Scenarios = []experiment.Scenario{experiment.Local, experiment.Shared}
	}
	plans, err = c.Plan()
	if field, ok := errors.AsType[*experiment.FieldError](err); ok {
		return nil, fmt.Errorf("--%s: %w", field.Field, field.Err)
	}
	return plans, err
}

// parts are the replicas' parts of the load.
func (f *replicasFlags) parts(flags *pflag.FlagSet) ([]float64, error) {
	text := f.skew
	if !flags.Changed("skew") {
		if text = defaultSkew; f.replicas != 3 {
			text = strings.Repeat("1,", max(0, min(f.replicas, experiment.MaxReplicas)-1)) + "1"
		}
		if f.replicas < 1 || f.replicas > experiment.MaxReplicas {
			return nil, fmt.Errorf("--replicas: %d is not from 1 to %d", f.replicas, experiment.MaxReplicas)
		}
	}
	return listed("skew", text, func(part string) (float64, error) {
		w, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number: write each replica's part of the load, as in %s", part, defaultSkew)
		}
		return w, nil
	})
}

// listed reads what a flag lists with commas; nothing twice, where that would be two runs of one name.
func listed[T comparable](flag, text string, parse func(string) (T, error)) (values []T, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		if flag != "skew" && slices.Contains(values, v) {
			continue
		}
		values = append(values, v)
	}
	return values, nil
}

func (f *replicasFlags) run(cmd *cobra.Command) error {
	plans, err := f.plan(cmd.Flags())
	if err != nil {
		return err
	}
	picture, err := openPicture(f.svg)
	if err != nil {
		return err
	}
	defer picture.discard()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	say := func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), cmd.CommandPath()+": "+format+"\n", args...)
	}
	logging.Disable() // of what its client sees of an outage, a line for each attempt
	if err := experiment.Ready(ctx, plans); err != nil {
		return f.failed(err)
	}
	var traces []*experiment.Trace
	for i := range plans {
		showing := newCountdown(terminal(cmd.ErrOrStderr()), i+1, plans)
		t, err := plans[i].Run(ctx, showing.begin)
		showing.end()
		if ctx.Err() != nil {
			if len(traces) == 0 {
				return errors.New("interrupted before the first run was over")
			}
			say("interrupted: %d of %d runs are left out", len(plans)-i, len(plans))
			break
		}
		if err != nil {
			return f.failed(err)
		}
		traces = append(traces, t)
	}
	return f.print(cmd, traces, picture, say)
}

func (f *replicasFlags) print(cmd *cobra.Command, traces []*experiment.Trace, picture *picture, say func(string, ...any)) error {
	results := make([]experiment.Result, len(traces))
	for i, t := range traces {
		results[i] = t.Result()
	}
	text := ""
	if !f.json {
		text = experiment.Text(traces)
	}
	if err := printResult(cmd.OutOrStdout(), f.json, results, text); err != nil {
		return err
	}
	for i, t := range traces {
		causes := t.Causes()
		for _, cause := range causes[:min(len(causes), maxCauses)] {
			say("%s, %s: %s", results[i].Scenario, results[i].Load, oneLine(cause))
		}
	}
	svg, err := experiment.SVG(traces)
	if err != nil {
		return err
	}
	return picture.write(svg)
}

// failed says in one line why a run could not be carried out, without the secrets of a URL.
func (f *replicasFlags) failed(err error) error {
	return errors.New(oneLine(concealed(err.Error(), f.store)))
}
