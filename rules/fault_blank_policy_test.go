package rules

import "testing"

// A policy with blank fields went to all instances within seconds and crashed each of them (the Google Cloud incident of
// 12 June 2025). What is blank is an error with a place, never a limit of nothing or of everything.
func TestFaultBlankPolicy(t *testing.T) {
	const full = "version: 1\nrules:\n  - name: a\n    match: {path: /x}\n    key: [user]\n    limit: 10/s\n    overrides:\n      - match: {user: b}\n        limit: 1/s\n"
	mustParse(t, full)
	for _, text := range []string{
		"version:\nrules:\n", "version: 1\nrules: [~]\n", "version: 1\nrules: [{}]\n", "version: 1\nrules: [{name: , limit: }]\n",
		"version: 1\nrules: [{name: a, limit: {}}]\n", "version: 1\nrules: [{name: a, limit: {rate: , per: s}}]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, match: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, match: {path: }}]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, key: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, key: [~]}]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, key: [u], overrides: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, key: [u], overrides: [~]}]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, cost: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, shadow: }]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, key: [u], enforce: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, key: [u], missing: }]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, on_store_failure: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, breaker: }]\n",
		"version: 1\nrules: [{name: a, limit: 1/s, tighten: }]\n", "version: 1\nrules: [{name: a, limit: 1/s, tighten: {breaker: , to: }}]\n",
		"", "~", "{}", "[]", "version: 1", "rules: [{name: a, limit: 1/s}]",
	} {
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("no error for %q", text)
		} else {
			checkErrors(t, err)
		}
	}
	// A file that is cut off anywhere is bad, or has fewer rules; it never ends the program.
	for i := range full {
		if _, err := Parse("f", []byte(full[:i])); err != nil {
			checkErrors(t, err)
		}
	}
}
