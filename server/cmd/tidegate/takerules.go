package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// rulesFlags say which rules a take is decided by, and what is known of the request.
type rulesFlags struct {
	file       string
	attributes []string
}

func (f *rulesFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "rules", "", "file of rules to decide by, instead of --limit and --key; - is standard input")
	flags.StringArrayVar(&f.attributes, "attr", nil, "attribute of the request, as in --attr path=/api/x; may be repeated")
	if err := cmd.MarkFlagFilename("rules", "yaml", "yml"); err != nil {
		panic(err) // the flag does not exist: a slip in this program
	}
}

// given reports whether takes are to be decided by rules.
func (f *rulesFlags) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("rules") || cmd.Flags().Changed("attr")
}

// check refuses flags that do not fit each other, and reads the attributes.
func (f *rulesFlags) check(cmd *cobra.Command) (tidegate.AttributeMap, error) {
	if f.file == "" {
		return nil, errors.New("--rules is missing: name the file of rules that --attr is for, as in --rules rules.yaml")
	}
	for _, name := range []string{"limit", "key", "rule", "wait"} {
		if cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s does not go with --rules, which says it all: give what is known of the request, as in --attr user=42", name)
		}
	}
	attributes := tidegate.AttributeMap{}
	for _, a := range f.attributes {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--attr is %q: write a name and a value, as in --attr path=/api/x", a)
		}
		if _, twice := attributes[name]; twice {
			return nil, fmt.Errorf("--attr %s is given twice: a request has one value for each attribute", name)
		}
		attributes[name] = value
	}
	return attributes, nil
}

// engine reads the rules. They are as old as their file, so that all who read it agree on what is newer.
func (f *rulesFlags) engine(cmd *cobra.Command, store tidegate.Store) (*rules.Engine, error) {
	set, err := loadRules(cmd.InOrStdin(), f.file)
	if es, ok := errors.AsType[rules.Errors](err); ok && len(es) > 1 {
		return nil, fmt.Errorf("%w\nand %d more: tidegate validate %s says them all", es[0], len(es)-1, f.file)
	}
	if err != nil {
		return nil, err
	}
	cfg := &rules.Config{At: time.Now()}
	if info, err := os.Stat(f.file); err == nil {
		cfg.At = info.ModTime()
	}
	return rules.New(store, set, cfg)
}

// matchedResult is what one rule said, as JSON.
type matchedResult struct {
	Rule string `json:"rule"`
	Key  string `json:"key"`
	// Limit is the text of the limit that counted, and Override the conditions of the override that it is of, if it is.
	Limit    string            `json:"limit"`
	Override *string           `json:"override"`
	Lacking  bool              `json:"lacking"` // whether the request lacks an attribute that the rule needs
	Cost     int64             `json:"cost"`
	Shadow   bool              `json:"shadow"`
	Decision tidegate.Decision `json:"decision"`
}

func resultOf(m *rules.Matched) matchedResult {
	r := matchedResult{
		Rule: m.Rule.Name, Key: m.Charge.Key, Limit: m.Charge.Limit.String(), Cost: m.Charge.Cost, Shadow: m.Charge.Shadow, Lacking: m.Lacking, Decision: m.Decision,
	}
	if m.Override >= 0 {
		conditions := m.Rule.Overrides[m.Override].Match.String()
		r.Override = &conditions
	}
	return r
}

// String says it in one line.
func (r *matchedResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s: limit %s", r.Rule, r.Limit)
	if r.Override != nil {
		fmt.Fprintf(&b, " (override %s)", *r.Override)
	}
	if r.Key != "" {
		fmt.Fprintf(&b, ", key %q", r.Key)
	}
	if r.Cost != 1 {
		fmt.Fprintf(&b, ", cost %d", r.Cost)
	}
	if r.Lacking {
		b.WriteString(", for want of an attribute that the rule needs")
	}
	if r.Shadow {
		b.WriteString(", in shadow")
	}
	text := decisionText(r.Decision)
	return b.String() + ": " + text[:strings.LastIndex(text, " (")] // the rule is named, and the source is the whole's
}

// takeRules takes once, and prints which rules matched, which decided, and under what limit.
func takeRules(ctx context.Context, cmd *cobra.Command, e *rules.Engine, attributes tidegate.Attributes, cost int64, asJSON bool) error {
	matched, err := e.Match(attributes, cost, nil)
	if err != nil {
		return err
	}
	d, err := e.Take(ctx, matched)
	if err != nil {
		return err
	}
	result := rulesResult{decision: d, Matched: make([]matchedResult, len(matched))}
	lines := []string{decisionText(d)}
	for i := range matched {
		result.Matched[i] = resultOf(&matched[i])
		lines = append(lines, result.Matched[i].String())
	}
	if err := printResult(cmd.OutOrStdout(), asJSON, result, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if !d.Allowed {
		return errDenied
	}
	return nil
}
