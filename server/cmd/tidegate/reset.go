package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
)

func newReset() *cobra.Command {
	var b bucketFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reset --key KEY [--store STORE]",
		Short: "Make a bucket as good as new",
		Long:  `Reset forgets what was taken from the bucket of a key. It exits with 0 if that is done, 2 if it is not.`,
		Example: `  tidegate reset --key user:42 --store redis://localhost:6379
  tidegate reset --rule example --key user:42 --store redis://localhost:6379`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			charge, err := b.named(cmd) // a bucket goes by its name, whatever its limit
			if b.givesLimit(cmd) {
				charge, err = b.charge(cmd, time.Now())
			}
			if err != nil {
				return err
			}
			store, err := b.open(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			if err := store.Reset(cmd.Context(), []tidegate.Charge{charge}); err != nil {
				return noAnswer(b.store, err)
			}
			return printResult(cmd.OutOrStdout(), asJSON, struct {
				Reset bool `json:"reset"`
			}{true}, fmt.Sprintf("reset: rule %s, key %q", charge.Rule, charge.Key))
		},
	}
	b.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
