package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what this binary was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the repository; empty if the build did not record it
	Modified bool   `json:"modified"` // whether it had changes that are not in the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the build in one line.
func (b build) String() string {
	s := "tidegate " + b.Version
	if b.Revision != "" {
		s += fmt.Sprintf(" revision %.12s", b.Revision)
		if b.Modified {
			s += " with changes"
		}
	}
	return s + " " + b.Go + " " + b.Platform
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this command was built from",
		Args:  flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := buildVersion()
			return printResult(cmd.OutOrStdout(), asJSON, b, b.String())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
