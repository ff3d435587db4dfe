package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// standardInput is the name of the file that is none.
const standardInput = "-"

func newRules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Share rules through a store: push, pull, compare",
		Long: `Rules keeps a file of rules in the store, for services that were started with --rules store (or with the same etcd:// URL):
all of them have a change within a second, and check it before they take it.`,
		Args: commandNamed,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRulesPush(), newRulesPull(), newRulesDiff(), newRulesHistory())
	return cmd
}

// readRules reads a file of rules, or standard input, as much of it as serve does.
func readRules(stdin io.Reader, file string) (text []byte, name string, err error) {
	name, in := file, stdin
	if file == standardInput {
		name = "stdin"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		in = f
	}
	text, err = io.ReadAll(io.LimitReader(in, source.MaxText+1))
	if err == nil && len(text) > source.MaxText {
		err = source.TooLong(name)
	}
	return text, name, err
}

// badRules ends a command with every mistake of a file on a line of its own.
func badRules(cmd *cobra.Command, err error) error {
	es, ok := errors.AsType[rules.Errors](err)
	if !ok {
		return err
	}
	for _, e := range es {
		fmt.Fprintln(cmd.ErrOrStderr(), e)
	}
	return &exitError{code: exitDenied}
}

// current is what is in the store now.
type current struct {
	doc source.Document // of version 0 where there is none
	set *rules.Set      // nil where there is none, or it is bad
}

// pullCurrent returns what is in the store, also where that is nothing.
func (p *rulesPlace) pullCurrent(ctx context.Context) (current, error) {
	doc, err := p.editor.Pull(ctx)
	if errors.Is(err, source.ErrNone) {
		return current{}, nil
	}
	if err != nil {
		return current{}, p.failed(err)
	}
	set, err := rules.Parse(doc.Origin, doc.Text)
	if err != nil {
		set = nil // it is there to be replaced
	}
	return current{doc: doc, set: set}, nil
}

// whoami is who makes a change, as far as the system knows.
func whoami() string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}

// shownVersion says a version, and when that was.
func shownVersion(doc *source.Document) string {
	s := fmt.Sprintf("version %d of %s", doc.Version, doc.Time().UTC().Format(time.RFC3339))
	if doc.By != "" {
		s += " by " + doc.By
	}
	return s
}

// fileNamed takes the name of one file.
func fileNamed(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("the file is missing, as in %s rules.yaml", cmd.CommandPath())
	case len(args) > 1:
		return fmt.Errorf("%q is one file too many: this command takes one", args[1])
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(noun, "s"))
}
