package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
)

// logFlags are the flags of serve that are about its log.
type logFlags struct{ format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "how to log to stderr: text or json, a line for each event")
	complete(cmd, "log-format", "text", "json")
}

// json reports whether each line is to be JSON.
func (f *logFlags) json() bool { return f.format == "json" }

func (f *logFlags) logger(cmd *cobra.Command) (*slog.Logger, error) {
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)), nil
	}
	return nil, fmt.Errorf("--log-format is %q: it must be text or json", f.format)
}
