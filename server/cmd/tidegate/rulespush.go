package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// pushFlags are the flags of rules push.
type pushFlags struct {
	store  string
	expect int64
	by     string
	json   bool
}

func newRulesPush() *cobra.Command {
	f := pushFlags{}
	cmd := &cobra.Command{
		Use:   "push FILE --store URL",
		Short: "Replace the shared rules by a file",
		Long: `Push checks a file of rules (- is standard input) and puts it in the place of those that are shared, for all services at once.
With --expect it does so only if the version is still the one that was pulled; 0 expects none. Repeated as it was, since its answer
was lost, such a push changes nothing, says so, and exits with 0.

A duration after "until" begins now: "unlimited until 10m" ends in ten minutes, and then the limit is what it was before.

It exits with 0 if the rules are there, 1 if the file is bad or the version is another, 2 if the store did not answer.`,
		Example: `  tidegate rules push rules.yaml --store redis://localhost:6379
  tidegate rules push rules.yaml --store etcd://localhost:2379/tidegate/rules --expect 1796025600123456
  tidegate rules pull --version 1796025600123456 | tidegate rules push -    # undo`,
		Args: fileNamed,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "", sharedRulesUsage)
	flags.Int64Var(&f.expect, "expect", 0, "version that is to be replaced; 0 for none (default: any)")
	flags.StringVar(&f.by, "by", "", "who makes the change (default user@host)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	complete(cmd, "store", storeExamples...)
	return cmd
}

// pushResult is what rules push prints with --json.
type pushResult struct {
	Version int64 `json:"version"` // that is there now
	Pushed  bool  `json:"pushed"`  // false where it was there already
	Rules   int   `json:"rules"`
	Changed int   `json:"changed"` // rules that were added, changed or removed
}

func (f *pushFlags) run(cmd *cobra.Command, file string) error {
	if f.expect < 0 {
		return fmt.Errorf("--expect is %d: it must be a version, or 0 for none", f.expect)
	}
	by := f.by
	if by == "" {
		by = whoami()
	}
	text, name, err := readRules(cmd.InOrStdin(), file)
	if err != nil {
		return err
	}
	place, err := openRulesPlace(f.store)
	if err != nil {
		return err
	}
	defer place.close()
	// Durations begin at one moment, and what they return to is what is replaced: so that is compared in any case.
	now, err := place.now(cmd.Context())
	if err != nil {
		return place.failed(err)
	}
	const tries = 5
	for try := 1; ; try++ {
		was, err := place.pullCurrent(cmd.Context())
		if err != nil {
			return err
		}
		expect := was.doc.Version
		if cmd.Flags().Changed("expect") {
			expect = f.expect
		}
		absolute, err := rules.Absolute(name, text, now, was.set)
		if err != nil {
			return badRules(cmd, err)
		}
		set, err := rules.Parse(name, absolute)
		if err != nil {
			return badRules(cmd, err)
		}
		if err := source.CheckPush(absolute, by, expect); err != nil {
			return err
		}
		version, err := place.editor.Push(cmd.Context(), absolute, by, expect)
		if _, conflict := errors.AsType[*source.ConflictError](err); conflict && !cmd.Flags().Changed("expect") && try < tries {
			continue // another was faster, which does not matter
		}
		if err != nil {
			return place.failed(err)
		}
		result := pushResult{Version: version, Pushed: version != was.doc.Version, Rules: len(set.Rules()), Changed: len(rules.Diff(was.set, set))}
		return printResult(cmd.OutOrStdout(), f.json, result, result.String())
	}
}

func (r *pushResult) String() string {
	if !r.Pushed {
		return fmt.Sprintf("unchanged: version %d, %s", r.Version, plural(r.Rules, "rule"))
	}
	return fmt.Sprintf("pushed: version %d, %s, %d changed", r.Version, plural(r.Rules, "rule"), r.Changed)
}
