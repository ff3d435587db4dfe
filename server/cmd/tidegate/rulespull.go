package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidegate-go/tidegate/rules/source"
)

func newRulesPull() *cobra.Command {
	var store string
	var version int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pull --store URL",
		Short: "Print the shared rules",
		Long: `Pull prints the shared rules, and on stderr their version, to push with --expect. With --version it prints one before.
It exits with 0 if there are some, 1 if there are none, 2 if the store did not answer.`,
		Example: `  tidegate rules pull --store redis://localhost:6379 > rules.yaml`,
		Args:    flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := openRulesPlace(store)
			if err != nil {
				return err
			}
			defer place.close()
			var doc source.Document
			if cmd.Flags().Changed("version") {
				doc, err = place.former(cmd.Context(), version)
			} else if doc, err = place.editor.Pull(cmd.Context()); err != nil {
				err = place.failed(err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printResult(cmd.OutOrStdout(), true, pulledDocument(&doc, true), "")
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), shownVersion(&doc))
			if _, err := cmd.OutOrStdout().Write(doc.Text); err != nil {
				return fmt.Errorf("the result could not be written: %w", err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&store, "store", "", sharedRulesUsage)
	flags.Int64Var(&version, "version", 0, "version to print (default: the present one)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	complete(cmd, "store", storeExamples...)
	return cmd
}

func newRulesHistory() *cobra.Command {
	var store string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history --store URL",
		Short: "List the versions of the shared rules, the latest first",
		Long: `History lists the version of the shared rules and those before that are still kept, with who pushed them and when:
compare with one by rules diff --version, return to one by rules pull --version | rules push -`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := openRulesPlace(store)
			if err != nil {
				return err
			}
			defer place.close()
			if place.history == nil {
				return errors.New("etcd keeps no versions of rules but the present one: rules pull prints it")
			}
			var docs []source.Document
			doc, err := place.editor.Pull(cmd.Context())
			switch {
			case err == nil:
				docs = append(docs, doc)
			case !errors.Is(err, source.ErrNone):
				return place.failed(err)
			}
			former, err := place.history(cmd.Context())
			if err != nil {
				return place.failed(err)
			}
			docs = append(docs, former...)
			var lines []string
			list := make([]pulled, len(docs))
			for i := range docs {
				list[i] = pulledDocument(&docs[i], false)
				lines = append(lines, fmt.Sprintf("%d  %s  %s", docs[i].Version, docs[i].Time().UTC().Format(time.RFC3339), docs[i].By))
			}
			if len(docs) == 0 {
				return place.failed(source.ErrNone)
			}
			return printResult(cmd.OutOrStdout(), asJSON, list, strings.Join(lines, "\n"))
		},
	}
	cmd.Flags().StringVar(&store, "store", "", sharedRulesUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	complete(cmd, "store", storeExamples...)
	return cmd
}

// pulled is a document as JSON.
type pulled struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Text    string    `json:"text,omitempty"`
}

func pulledDocument(doc *source.Document, withText bool) pulled {
	p := pulled{Version: doc.Version, At: doc.Time().UTC(), By: doc.By}
	if withText {
		p.Text = string(doc.Text)
	}
	return p
}
