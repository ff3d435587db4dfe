package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
)

func newPeek() *cobra.Command {
	var b bucketFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "peek --limit LIMIT --key KEY [--store STORE]",
		Short: "Ask whether a cost of 1 would pass, and what remains",
		Long: `Peek prints the decision that a take would get. It charges nothing and writes nothing.
It exits with 0 if a cost of 1 would be allowed, 1 if it would be denied, 2 if there is no decision.`,
		Example: `  tidegate peek --limit "10/s burst 20" --key user:42 --store redis://localhost:6379
  tidegate peek --rule example --key user:42 --store redis://localhost:6379`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			charge, err := b.charge(cmd, time.Now())
			if err != nil {
				return err
			}
			store, err := b.open(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			ds, err := store.Take(cmd.Context(), []tidegate.Charge{charge}, nil)
			if err != nil {
				return noAnswer(b.store, err)
			}
			return printDecision(cmd.OutOrStdout(), ds[0], asJSON)
		},
	}
	b.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
