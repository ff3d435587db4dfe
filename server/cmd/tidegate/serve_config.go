package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

const (
	// variablePrefix is what the variables of the environment begin with that stand for flags of serve.
	variablePrefix = "TIDEGATE_"
	// maxConfig is the longest file of --config, in bytes.
	maxConfig = 1 << 20
	// maxMistakes is how many mistakes are told of at once.
	maxMistakes = 3
)

// configFlags are the flags of serve that are about where the others come from.
type configFlags struct {
	file string
	show bool
	// origins says where each flag that is set comes from.
	origins map[string]string
}

func (f *configFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "YAML file of these flags without their dashes, as in \"listen: :8080\"; flags and variables go first (default none)")
	flags.BoolVar(&f.show, "print-config", false, "print what is in force and where it comes from, without secrets, and exit")
	if err := cmd.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // the flag does not exist: a slip in this program
	}
}

// unconfigurable are the flags that only make sense on the command line.
var unconfigurable = []string{"config", "print-config", "help"}

// variable is the name of the variable that stands for a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// resolve sets each flag that the command line does not by its variable, else by the file. What is wrong with all of them
// is told at once, up to a few.
func (f *configFlags) resolve(cmd *cobra.Command) error {
	f.origins = map[string]string{}
	flags := cmd.Flags()
	flags.Visit(func(g *pflag.Flag) { f.origins[g.Name] = "flag" })
	if f.file == "" {
		f.file = os.Getenv(variable("config"))
	}
	var errs []error
	flags.VisitAll(func(g *pflag.Flag) {
		name := variable(g.Name)
		value := os.Getenv(name)
		if value == "" || f.origins[g.Name] != "" || slices.Contains(unconfigurable, g.Name) {
			return
		}
		f.origins[g.Name] = "$" + name
		if flags.Set(g.Name, value) != nil {
			errs = append(errs, fmt.Errorf("$%s is %q, which is not %s", name, value, wantedValue(g.Value.Type())))
		}
	})
	if f.file != "" {
		errs = append(errs, f.read(cmd)...)
	}
	if more := len(errs) - maxMistakes; more > 0 { // a command line that is wrong is answered with three lines at most
		errs = append(errs[:maxMistakes-1], fmt.Errorf("and %d more mistakes", more+1))
	}
	return errors.Join(errs...)
}

// read sets by the file what nothing else has set.
func (f *configFlags) read(cmd *cobra.Command) []error {
	text, err := readConfig(f.file)
	if err != nil {
		return []error{fmt.Errorf("--config: %w", err)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return []error{fmt.Errorf("--config: %s: %s", f.file, oneLine(strings.TrimPrefix(err.Error(), "yaml: ")))}
	}
	if len(doc.Content) == 0 {
		return nil // nothing but comments
	}
	m := doc.Content[0]
	wrong := func(n *yaml.Node, format string, args ...any) error {
		return fmt.Errorf("--config: %s:%d:%d: %s", f.file, n.Line, n.Column, fmt.Sprintf(format, args...))
	}
	if m.Kind != yaml.MappingNode {
		return []error{wrong(m, `it is not a mapping: write lines such as "listen: :8080"`)}
	}
	var errs []error
	lines := map[string]int{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		name, value := m.Content[i], m.Content[i+1]
		if line := lines[name.Value]; line > 0 {
			errs = append(errs, wrong(name, "%s is given twice, first on line %d", name.Value, line))
			continue
		}
		lines[name.Value] = name.Line
		flag := cmd.Flags().Lookup(name.Value)
		switch {
		case name.Value == "token":
			errs = append(errs, wrong(name, "a token does not belong here: write it into a file of its own, and name that as token-file"))
			continue
		case slices.Contains(unconfigurable, name.Value):
			errs = append(errs, wrong(name, "%s is for the command line alone", name.Value))
			continue
		case flag == nil:
			errs = append(errs, wrong(name, "%s is unknown%s", name.Value, nearName(cmd, name.Value)))
			continue
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			errs = append(errs, wrong(value, "%s wants one value", name.Value))
			continue
		}
		if f.origins[flag.Name] != "" {
			if err := f.try(flag, value.Value); err != nil {
				errs = append(errs, wrong(value, "%s is %q, which is not %s", name.Value, value.Value, wantedValue(flag.Value.Type())))
			}
			continue
		}
		f.origins[flag.Name] = fmt.Sprintf("%s:%d", f.file, name.Line)
		if cmd.Flags().Set(flag.Name, value.Value) != nil {
			errs = append(errs, wrong(value, "%s is %q, which is not %s", name.Value, value.Value, wantedValue(flag.Value.Type())))
		}
	}
	return errs
}

// try says whether a flag that has a value already would take this one.
func (*configFlags) try(flag *pflag.Flag, value string) error {
	have := flag.Value.String()
	err := flag.Value.Set(value)
	return errors.Join(err, flag.Value.Set(have))
}

// readConfig reads a file that is not absurdly long.
func readConfig(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("%s: %w", path, e.Err)
		}
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(text) > maxConfig:
		return nil, fmt.Errorf("%s is longer than %d KiB, which no config is", path, maxConfig>>10)
	}
	return text, nil
}

func nearName(cmd *cobra.Command, name string) string {
	near := nearFlag(cmd, strings.ReplaceAll(name, "_", "-"))
	if near == "" {
		return ": " + cmd.CommandPath() + " --help lists the flags"
	}
	return ": did you mean " + near + "?"
}

// printed writes what is in force as a file that --config takes, but for secrets, which are left out.
func (f *configFlags) printed(cmd *cobra.Command, token string) {
	out := cmd.OutOrStdout()
	cmd.Flags().VisitAll(func(g *pflag.Flag) {
		if slices.Contains(unconfigurable, g.Name) {
			return
		}
		origin := f.origins[g.Name]
		if origin == "" {
			origin = "default"
		}
		value := g.Value.String()
		if g.Name == "replicas" && origin == "default" {
			fmt.Fprintln(out, "# replicas: not known")
			return
		}
		if g.Name == "store" && value == "" {
			value = memoryStore
		}
		if shown := shownStore(value); shown != value { // a URL, which may have a password in it
			value, origin = shown, origin+"; without user, password and options"
		}
		fmt.Fprintf(out, "%s: %s # %s\n", g.Name, configScalar(g, value), origin)
	})
	state := "none: nobody resets, refunds or changes rules"
	if token != "" {
		state = "set"
	}
	fmt.Fprintf(out, "# token: %s\n", state)
}

// configScalar writes a value so that YAML reads it back.
func configScalar(g *pflag.Flag, value string) string {
	if g.Value.Type() != "string" {
		return value
	}
	b, err := yaml.Marshal(value)
	if err != nil { // a string always marshals
		return `""`
	}
	return strings.TrimSpace(string(b))
}

// warnUnknown logs the variables that look as if they were for serve, and are not: likely a slip. Those that Kubernetes sets for a
// service named tidegate are none, nor those of tests.
func warnUnknown(cmd *cobra.Command, log *slog.Logger) {
	known := map[string]bool{tokenVariable: true, variable("config"): true}
	cmd.Flags().VisitAll(func(g *pflag.Flag) {
		known[variable(g.Name)] = !slices.Contains(unconfigurable, g.Name) || g.Name == "config"
	})
	var names []string
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, variablePrefix)
		kubernetes := rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
		if ours && value != "" && !known[name] && !kubernetes {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		log.Warn("a variable is not one of serve's, and is ignored", slog.String("variable", name))
	}
}
