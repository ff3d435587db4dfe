package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/tidegate-go/tidegate"
)

// printDecision prints the decision as one line, or as JSON, and returns errDenied if it says no.
func printDecision(w io.Writer, d tidegate.Decision, asJSON bool) error {
	if err := printResult(w, asJSON, d, decisionText(d)); err != nil {
		return err
	}
	if !d.Allowed {
		return errDenied
	}
	return nil
}

// printResult prints a result as JSON or as text, on a line of its own.
func printResult(w io.Writer, asJSON bool, result any, text string) error {
	if asJSON {
		b, err := json.Marshal(result)
		if err != nil {
			return err
		}
		text = string(b)
	}
	if _, err := fmt.Fprintln(w, text); err != nil {
		return fmt.Errorf("the result could not be written: %w", err)
	}
	return nil
}

// decisionText says a decision in one line:
//
//	allowed: remaining 19 of 20, reset after 100ms (rule cli, source store)
func decisionText(d tidegate.Decision) string {
	var b strings.Builder
	switch {
	case !d.Allowed:
		b.WriteString("denied")
	case d.Delay > 0:
		fmt.Fprintf(&b, "allowed, delay %v", shown(d.Delay))
	default:
		b.WriteString("allowed")
	}
	if d.Limit == tidegate.NoLimit {
		b.WriteString(": unlimited")
	} else {
		fmt.Fprintf(&b, ": remaining %d of %d", d.Remaining, d.Limit)
	}
	switch {
	case d.Allowed:
	case d.RetryAfter == tidegate.Never:
		b.WriteString(", can never pass")
	default:
		fmt.Fprintf(&b, ", retry after %v", shown(d.RetryAfter))
	}
	if d.ResetAfter > 0 && d.ResetAfter != tidegate.Never {
		fmt.Fprintf(&b, ", reset after %v", shown(d.ResetAfter))
	}
	if d.Rule == "" { // none matched, or all are in shadow
		fmt.Fprintf(&b, " (no rule, source %s)", d.Source)
	} else {
		fmt.Fprintf(&b, " (rule %s, source %s)", d.Rule, d.Source)
	}
	return b.String()
}

// shown rounds a time for people: up, as JSON does, and to four digits or so, since no one reads more.
func shown(d time.Duration) time.Duration {
	unit := time.Microsecond
	for unit < time.Second && d >= 10_000*unit {
		unit *= 10
	}
	if rest := d % unit; rest > 0 {
		d += unit - rest
	}
	return d
}

// printable keeps what a message quotes, such as the name of a file, from moving the cursor of a terminal. Lines stay lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
