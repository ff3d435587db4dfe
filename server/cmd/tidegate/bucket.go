package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/server"
)

// cliRule is the rule that the command acts as where none is named.
const cliRule = "cli"

// bucketFlags name a bucket and the store that holds it.
type bucketFlags struct {
	limit, key, rule, store string
}

func (b *bucketFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.limit, "limit", "", `limit of the bucket, such as "10/s burst 20"`)
	f.StringVar(&b.key, "key", "", "key of the bucket, such as user:42")
	f.StringVar(&b.rule, "rule", cliRule, "rule of the bucket; with example, --limit may be left out")
	f.StringVar(&b.store, "store", "", storeUsage)
	complete(cmd, "limit", `10/s`, `10/s burst 20`, `100/min sliding-window slices 6`, `1000/day fixed-window`, `10/s leaky-bucket queue 5`)
	complete(cmd, "rule", cliRule, server.ExampleRule().Name)
	complete(cmd, "store", storeExamples...)
}

// charge is the bucket as a store knows it. A limit that the command line gives is one that was changed when the
// command started, so that a later command changes the bucket's limit; the built-in rule's is part of the program.
func (b *bucketFlags) charge(cmd *cobra.Command, started time.Time) (tidegate.Charge, error) {
	c, err := b.named(cmd)
	if err != nil {
		return c, err
	}
	if b.givesLimit(cmd) {
		limit, err := tidegate.ParseLimit(b.limit)
		if err != nil {
			return c, err
		}
		c.Limit, c.Version = &limit, started.UnixMicro()
		return c, nil
	}
	builtIn := server.ExampleRule()
	if b.rule != builtIn.Name {
		return c, errors.New(`--limit is missing: say how much may pass, as in --limit "10/s burst 20"`)
	}
	c.Limit = &builtIn.Limit
	return c, nil
}

func (b *bucketFlags) givesLimit(cmd *cobra.Command) bool { return cmd.Flags().Changed("limit") }

// named is the bucket by its name alone, under a limit that has no meaning.
func (b *bucketFlags) named(cmd *cobra.Command) (tidegate.Charge, error) {
	switch {
	case !cmd.Flags().Changed("key"):
		return tidegate.Charge{}, errors.New("--key is missing: name the bucket, as in --key user:42")
	case b.rule == "":
		return tidegate.Charge{}, errors.New("--rule is empty: name a rule, or leave it out")
	}
	return tidegate.Charge{Rule: b.rule, Key: b.key, Limit: &tidegate.Limit{Rate: 1, Per: time.Second}}, nil
}

// open opens the store of a command that asks about what other processes took. The default is the memory store, as
// everywhere, but nobody else takes from that of this process: so it says where to ask instead.
func (b *bucketFlags) open(cmd *cobra.Command) (tidegate.Store, error) {
	if storeName(b.store) == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: without --store this asks a new memory store, in which every bucket is full; "+
			"name yours, as in --store redis://localhost:6379, or ask a service by POST /v1/%s\n", cmd.CommandPath(), cmd.Name())
	}
	return openStore(b.store, storePatience)
}

// complete makes the shell complete the flag with the words.
func complete(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist, or is completed already: a slip in this program
	}
}
