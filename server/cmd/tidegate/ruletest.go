package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidegate-go/tidegate/server/internal/ruletest"
)

func newRuleTest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test FILE…",
		Short: "Hold rules to what files of tests expect of them",
		Long: `Test runs files of tests: requests at virtual times, and what the rules have to decide on each. It prints what was expected and
what came instead, and exits with 0 if all is as expected, 1 if not, 2 if a file or a test cannot be used; the others are
run all the same.

  rules: rules.yaml             # beside this file
  start: 2026-03-01T10:00:00Z   # of each test; may be left out
  tests:
    - name: a user has a burst of five, and then one a second
      steps:
        - {at: 0s, attributes: {user: "42"}, times: 6, expect: {admitted: 5}}
        - {at: 500ms, attributes: {user: "42"}, expect: {allowed: false, rule: per-user, retry_after: 500ms}}
        - {at: 1s, attributes: {user: "42"}, expect: {allowed: true, remaining: 0, matched: [per-user]}}

Rules of permits are left out. Expected can be: allowed, admitted, rule, limit, remaining, retry_after, reset_after, delay, matched.`,
		Example: "  tidegate test rules_test.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no file is named: write the files of tests")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error { return runRuleTests(cmd.OutOrStdout(), names, asJSON) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// testedFile is a file's part of the result.
type testedFile struct {
	File  string            `json:"file"`
	Tests []ruletest.Result `json:"tests"`
	all   int               // those without a result too
}

func runRuleTests(w io.Writer, names []string, asJSON bool) error {
	var files []testedFile // with results; those without are in the error alone
	var errs []error
	failed := false
	for _, name := range names {
		f, err := ruletest.Load(name)
		var results []ruletest.Result
		if err == nil {
			results, err = f.Run()
		}
		if err != nil {
			errs = append(errs, err)
		}
		if len(results) == 0 {
			continue
		}
		files = append(files, testedFile{name, results, len(f.Tests)})
		for _, r := range results {
			failed = failed || len(r.Failures) > 0
		}
	}
	if len(files) > 0 {
		if err := writeRuleTests(w, files, asJSON); err != nil {
			return err
		}
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		return err
	case failed:
		return errDenied
	}
	return nil
}

func writeRuleTests(w io.Writer, files []testedFile, asJSON bool) error {
	if asJSON {
		b, err := json.Marshal(files)
		if err != nil {
			return err
		}
		_, err = w.Write(append(b, '\n'))
		return err
	}
	for _, f := range files {
		good := 0
		for _, r := range f.Tests {
			if len(r.Failures) == 0 {
				good++
				continue
			}
			if _, err := fmt.Fprintf(w, "%s: FAILED %s\n", f.File, r.Name); err != nil {
				return err
			}
			for i := range r.Failures {
				if _, err := fmt.Fprintf(w, "  %s\n", r.Failures[i].String()); err != nil {
					return err
				}
			}
		}
		if _, err := fmt.Fprintf(w, "%s: %d of %d tests passed\n", f.File, good, f.all); err != nil {
			return err
		}
	}
	return nil
}
