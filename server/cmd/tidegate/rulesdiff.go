package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/rules"
)

// diffFlags are the flags of rules diff.
type diffFlags struct {
	store   string
	version int64
	json    bool
}

func newRulesDiff() *cobra.Command {
	f := diffFlags{}
	cmd := &cobra.Command{
		Use:   "diff [FILE] FILE",
		Short: "Say what a file would change in the shared rules, or in another file",
		Long: `Diff compares rules by what they mean: comments, spellings and the order of rules make no difference. With one file it
compares with the shared rules, or the version of them that --version names; with two, the first with the second.
It exits with 0 if nothing would change, 1 if something would or a file is bad, 2 if the store did not answer.`,
		Example: `  tidegate rules diff rules.yaml --store redis://localhost:6379
  tidegate rules diff old.yaml new.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return fileNamed(cmd, args)
		},
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "", sharedRulesUsage)
	flags.Int64Var(&f.version, "version", 0, "version to compare with (default: the present one)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	complete(cmd, "store", storeExamples...)
	return cmd
}

// ruleDiff is what would become of one rule, as JSON.
type ruleDiff struct {
	Rule   string `json:"rule"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

func (f *diffFlags) run(cmd *cobra.Command, files []string) error {
	before, now, err := f.before(cmd, files)
	if err != nil {
		return err
	}
	text, name, err := readRules(cmd.InOrStdin(), files[len(files)-1])
	if err != nil {
		return err
	}
	if text, err = rules.Absolute(name, text, now, before); err != nil {
		return badRules(cmd, err)
	}
	after, err := rules.Parse(name, text)
	if err != nil {
		return badRules(cmd, err)
	}
	changes := rules.Diff(before, after)
	list := make([]ruleDiff, len(changes))
	var b strings.Builder
	for i, c := range changes {
		list[i] = ruleDiff{c.Rule, c.Before, c.After}
		b.WriteString(changeText(&c))
	}
	if len(changes) == 0 {
		b.WriteString("no rule would change\n")
	}
	if err := printResult(cmd.OutOrStdout(), f.json, list, strings.TrimSuffix(b.String(), "\n")); err != nil {
		return err
	}
	if len(changes) > 0 {
		return errDenied
	}
	return nil
}

// before returns what is compared with, nil for no rules, and the time at which durations begin.
func (f *diffFlags) before(cmd *cobra.Command, files []string) (*rules.Set, time.Time, error) {
	if len(files) == 2 {
		text, name, err := readRules(cmd.InOrStdin(), files[0])
		if err != nil {
			return nil, time.Time{}, err
		}
		set, err := rules.Parse(name, text)
		if err != nil {
			return nil, time.Time{}, badRules(cmd, err)
		}
		return set, time.Now(), nil
	}
	place, err := openRulesPlace(f.store)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer place.close()
	now, err := place.now(cmd.Context())
	if err != nil {
		return nil, now, place.failed(err)
	}
	if cmd.Flags().Changed("version") {
		doc, err := place.former(cmd.Context(), f.version)
		if err != nil {
			return nil, now, err
		}
		set, err := rules.Parse(doc.Origin, doc.Text)
		if err != nil {
			return nil, now, badRules(cmd, err)
		}
		return set, now, nil
	}
	was, err := place.pullCurrent(cmd.Context())
	return was.set, now, err
}

// changeText says what would become of a rule, line by line.
func changeText(c *rules.Change) string {
	word := "changed"
	switch {
	case c.Before == "":
		word = "added"
	case c.After == "":
		word = "removed"
	}
	// All of the rule is shown: a few lines are not worth hunks.
	text := fmt.Sprintf("rule %s: %s\n", c.Rule, word)
	diff, err := udiff.ToUnified("", "", c.Before, udiff.Strings(c.Before, c.After), strings.Count(c.Before+c.After, "\n"))
	if err != nil {
		return text // the edits are those of the texts
	}
	for line := range strings.Lines(diff) {
		if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "@@") {
			text += line
		}
	}
	return text
}
