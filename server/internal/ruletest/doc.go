// Package ruletest holds a file of rules to what another file expects of it: requests at virtual times, and what has to be
// decided on each.
//
//	rules: rules.yaml             # beside this file
//	start: 2026-03-01T10:00:00Z   # of each test; may be left out
//	tests:
//	  - name: a user has a burst of five, and then one a second
//	    steps:
//	      - {at: 0s, attributes: {user: "42"}, times: 6, expect: {admitted: 5}}
//	      - {at: 500ms, attributes: {user: "42"}, expect: {allowed: false, rule: per-user, retry_after: 500ms}}
//	      - {at: 1s, attributes: {user: "42"}, expect: {allowed: true, remaining: 0}}
//
// Rules of permits are left out, since no request holds one. Each test begins with fresh buckets. The requests are decided by package sim.
package ruletest
