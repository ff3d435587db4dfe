package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tidegate-go/tidegate/server/internal/replay"
)

// fleetFlags are the flags of replay that say how many share the limits, and when the store is away.
type fleetFlags struct {
	replicas int
	skew     []float64
	outages  []string
}

// maxReplicas is how many replicas can be replayed.
const maxReplicas = 1000

func (f *fleetFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.replicas, "replicas", 0, "how many replicas share the limits (default 1, or as many as --skew has parts)")
	flags.Float64SliceVar(&f.skew, "skew", nil, "parts of the traffic that the replicas get, such as 60,25,15 (default even)")
	flags.StringSliceVar(&f.outages, "outage", nil, "when the store is away: times of the log's first day in UTC, as 10:05-10:08, or two RFC 3339 instants with a slash between")
}

// apply checks the flags and sets what they say.
func (f *fleetFlags) apply(cfg *replay.Config) error {
	if f.replicas < 0 || f.replicas > maxReplicas {
		return fmt.Errorf("--replicas %d: 1 to %d", f.replicas, maxReplicas)
	}
	if len(f.skew) > maxReplicas {
		return fmt.Errorf("--skew has %d parts: at most %d", len(f.skew), maxReplicas)
	}
	if f.replicas > 0 && len(f.skew) > 0 && len(f.skew) != f.replicas {
		return fmt.Errorf("--skew has %d parts for %d replicas: give each one, or leave --replicas out", len(f.skew), f.replicas)
	}
	for _, part := range f.skew {
		if !(part > 0 && part <= 1e9) {
			return fmt.Errorf("--skew: a part of %v: above 0, such as 60,25,15", part)
		}
	}
	cfg.Replicas, cfg.Skew = f.replicas, f.skew
	for _, text := range f.outages {
		p, err := replay.ParsePeriod(text)
		if err != nil {
			return fmt.Errorf("--outage: %w", err)
		}
		cfg.Outages = append(cfg.Outages, p)
	}
	return nil
}
