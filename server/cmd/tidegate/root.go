package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tidegate-go/tidegate/redisstore"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidegate",
		Short: "A distributed rate limiter: the limit you wrote is the limit your downstream sees",
		Long: `Tidegate limits how much may pass, exactly, in one process or shared by many through Redis.

Try it:
  tidegate take --limit "10/s burst 20" --key user:42
  tidegate serve`,
		Version: buildVersion().String(),
		// What the client of Redis would print beside our own line says the same, several times; serve logs it.
		PersistentPreRun: func(*cobra.Command, []string) { redisstore.SetClientLogger(nil) },
		SilenceUsage:     true,
		SilenceErrors:    true,
		Args:             commandNamed,
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(newServe(), newTake(), newPeek(), newReset(), newValidate(), newRules(), newReplay(), newRuleTest(), newBench(), newVersion())
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // cobra's answers a shell that it does not know with its help, as if all were well
			c.Args, c.RunE = commandNamed, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// commandNamed refuses a word that is no command; cobra comes here when it knows none of the name.
func commandNamed(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %q: did you mean %s?", args[0], near[0])
	}
	return fmt.Errorf("there is no command %q: %s --help lists them", args[0], cmd.CommandPath())
}

// newHelp is cobra's help command, but for a topic that does not exist, which is misuse.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return commandNamed(root, rest)
			}
			topic.InitDefaultHelpFlag() // which the help lists
			return topic.Help()
		},
	}
}

// flagsOnly refuses arguments. The likely reason for one is a limit that was not quoted.
func flagsOnly(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("limit") != nil:
		return fmt.Errorf(`%q is not a flag: quote a value of several words, as in --limit "10/s burst 20"`, args[0])
	}
	return fmt.Errorf("%q is not a flag: this command takes no arguments", args[0])
}

// flagError says what is wrong with a flag, and what to write instead.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if short := e.GetSpecifiedShortnames(); short != "" {
			name = short // -limit is read as -l -i -m -i -t
		}
		if near := nearFlag(cmd, strings.TrimSpace(name)); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
		return fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath())
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s is %q, which is not %s", e.GetFlag().Name, e.GetValue(), wantedValue(e.GetFlag().Value.Type()))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s has no value", e.GetFlag().Name)
	}
	return err
}

// nearFlag returns the flag that name is most likely a slip of. Cobra measures this for commands; the flags are made
// commands of one to be measured alike.
func nearFlag(cmd *cobra.Command, name string) string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		all.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := all.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}

func wantedValue(kind string) string {
	switch kind {
	case "duration":
		return "a duration: write for example 500ms, 2s or 1m30s"
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a " + kind
}
