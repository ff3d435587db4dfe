package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/rules"
)

func newValidate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check files of rules, and say everything that is wrong with them",
		Long: `Validate reads files of rules as serve does. It prints a line for each mistake, "file:line:column: what is wrong (hint)",
or a line for each file if there is none. - is standard input.
It exits with 0 if all files are good, 1 if any is not, 2 if one cannot be read or is longer than serve takes: 4 MiB.`,
		Example: `  tidegate validate rules.yaml
  tidegate validate rules/*.yaml --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no file is named: write for example %s rules.yaml", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, files []string) error { return validate(cmd, files, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// validateResult is what validate prints as JSON.
type validateResult struct {
	Valid  bool           `json:"valid"`
	Files  []validateFile `json:"files"`
	Errors rules.Errors   `json:"errors"` // of all files
}

type validateFile struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	Rules int    `json:"rules"` // how many; 0 for a file that is not valid
}

func validate(cmd *cobra.Command, files []string, asJSON bool) error {
	result := validateResult{Valid: true, Errors: rules.Errors{}}
	var lines []string
	for _, file := range files {
		set, err := loadRules(cmd.InOrStdin(), file)
		es, bad := errors.AsType[rules.Errors](err)
		switch {
		case bad:
			result.Valid = false
			result.Errors = append(result.Errors, es...)
			result.Files = append(result.Files, validateFile{File: es[0].File})
			lines = append(lines, es.Error())
		case err != nil:
			return err
		default:
			n := len(set.Rules())
			result.Files = append(result.Files, validateFile{File: set.File(), Valid: true, Rules: n})
			line := fmt.Sprintf("%s: %d rules", set.File(), n)
			if n == 1 {
				line = set.File() + ": 1 rule"
			}
			lines = append(lines, line)
		}
	}
	if err := printResult(cmd.OutOrStdout(), asJSON, result, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if !result.Valid {
		return errDenied
	}
	return nil
}

// loadRules reads the rules of a file, or of standard input where it is called "-".
func loadRules(stdin io.Reader, file string) (*rules.Set, error) {
	text, name, err := readRules(stdin, file)
	if err != nil {
		return nil, err
	}
	return rules.Parse(name, text)
}
