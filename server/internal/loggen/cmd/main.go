// Command cmd prints a generated access log, to try replays and to measure them by hand:
//
//	go run ./server/internal/loggen/cmd --lines 1000000 --seed 42 --format json >access.log
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidegate-go/tidegate/server/internal/loggen"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 when the log was written, 2 when it could not be.
func run(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("loggen", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	var cfg loggen.Config
	flags.IntVar(&cfg.Lines, "lines", 1_000_000, "how many lines")
	flags.Uint64Var(&cfg.Seed, "seed", 42, "the same seed writes the same log")
	flags.IntVar(&cfg.PerSecond, "per-second", 400, "how many requests come in a second, on average, outside the burst")
	flags.StringVar(&cfg.Format, "format", "combined", "one of "+strings.Join(loggen.Formats, ", "))
	start := flags.String("start", "2026-03-01T10:00:00Z", "when the log begins")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag: the log goes to stdout", flags.Arg(0))
	}
	if err == nil {
		if cfg.Start, err = time.Parse(time.RFC3339, *start); err != nil {
			err = fmt.Errorf("--start %q: write for example 2026-03-01T10:00:00Z", *start)
		}
	}
	if err == nil {
		err = loggen.Write(stdout, cfg)
	}
	if err != nil {
		fmt.Fprintf(stderr, "loggen: %v\n", err)
		return 2
	}
	return 0
}
