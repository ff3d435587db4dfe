package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// WriteText writes the report as tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	if r.Interrupted {
		b.WriteString("Interrupted: this is the report so far.\n")
	}
	fmt.Fprintf(b, "%s of %s lines, %s skipped", count(r.Requests, "request"), number(r.Parsed+r.Skipped), number(r.Skipped))
	if r.Requests > 0 {
		fmt.Fprintf(b, "; %s to %s\n", r.From.UTC().Format(time.DateTime), r.To.UTC().Format(time.DateTime+" MST"))
		fmt.Fprintf(b, "%s admitted, %s refused (%s); the busiest second goes from %d to %d\n",
			number(r.Admitted), number(r.Refused), percent(r.Refused, r.Requests), r.PeakBefore, r.PeakAfter)
	} else {
		b.WriteString("\n")
	}
	for _, note := range r.timeNotes() {
		b.WriteString(note + "\n")
	}
	if r.Delayed > 0 {
		fmt.Fprintf(b, "%s of the admitted wait before they pass, at most for %s\n", number(r.Delayed), waits(r.LongestDelay))
	}
	for i := range r.Bad {
		fmt.Fprintf(b, "skipped %s:%d: %s\n", printable(r.Bad[i].File), r.Bad[i].Line, printable(r.Bad[i].Reason))
	}
	if n := r.moreSkipped(); n > 0 {
		fmt.Fprintf(b, "skipped %s more\n", number(n))
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\toffered\tadmitted\trefused\t\tkeys\trefused keys\t\tstreak\tpeak before\tafter\t")
	for i := range r.Rules {
		rr := &r.Rules[i]
		name := rr.Name
		if rr.Shadow {
			name += " (shadow)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", printable(name), number(rr.Offered), number(rr.Admitted), number(rr.Refused),
			percent(rr.Refused, rr.Offered), number(rr.Keys), number(rr.RefusedKeys), percent(rr.RefusedKeys, rr.Keys),
			number(rr.LongestStreak), rr.PeakBefore, rr.PeakAfter)
	}
	_ = t.Flush()
	for _, note := range r.countNotes() {
		b.WriteString(printable(note) + "\n")
	}
	r.outageTable(b)
	keyTable(b, "Refused most", r.TopRefused)
	if c := r.Compare; c != nil {
		fmt.Fprintf(b, "\nCompared: %s decided alike, %s newly refused, %s newly admitted\n", number(c.Same), number(c.NewlyRefused), number(c.NewlyAdmitted))
		keyTable(b, "Newly refused", c.WhoRefused)
		keyTable(b, "Newly admitted", c.WhoAdmitted)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// timeNotes say of which requests the moments are not those at which they came.
func (r *Report) timeNotes() (notes []string) {
	if n := r.Late - r.Long; n > 0 {
		notes = append(notes, number(n)+" out of order by more than the window: decided later than they came")
	}
	if r.Long > 0 {
		notes = append(notes, number(r.Long)+" took longer than the window: decided later than they came, unless a longer --window is given")
	}
	if r.Unmoved > 0 {
		notes = append(notes, number(r.Unmoved)+" unmoved: they do not say how long they took, and are decided at the moment that they were logged")
	}
	return notes
}

// moreSkipped is how many lines were skipped besides those that are shown.
func (r *Report) moreSkipped() int64 { return r.Skipped - int64(len(r.Bad)) }

// countNotes say which numbers are not exact, and which rules have none.
func (r *Report) countNotes() (notes []string) {
	for i := range r.Rules {
		if r.Rules[i].Estimated {
			notes = append(notes, r.Rules[i].Name+" has more than a million keys: their numbers are estimates, off by about a thousandth")
		}
		if r.Rules[i].Forgotten {
			notes = append(notes, r.Rules[i].Name+" refused too many keys to count each: what is said of single keys may be too low")
		}
	}
	for _, name := range r.Unreplayed {
		notes = append(notes, name+" was left out: it is a rule of permits, and a log does not say how long requests held one")
	}
	if r.Forgotten > 0 {
		notes = append(notes, number(r.Forgotten)+" buckets were forgotten for lack of room: there were too many keys at once to count exactly")
	}
	return notes
}

// outageTable tells of replicas and outages, if there are any.
func (r *Report) outageTable(b *strings.Builder) {
	if len(r.Replicas) == 0 {
		return
	}
	b.WriteString("\nRequests by replica:")
	for _, n := range r.Replicas {
		b.WriteString(" " + number(n))
	}
	b.WriteString("; decisions by source:")
	for i, source := range slices.Sorted(maps.Keys(r.Sources)) {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(b, " %s %s", source, number(r.Sources[source]))
	}
	b.WriteString("\n")
	if len(r.Outages) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "outage\t\toffered\tadmitted\tper second\tpeak\t")
	for i := range r.Outages {
		o := &r.Outages[i]
		row := func(name, what string, s *Stretch) {
			fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%.1f\t%d\t\n", name, what, roughly(s.Seconds), number(s.Offered), number(s.Admitted), s.Mean, s.Peak)
		}
		row(o.From.Format(time.DateTime)+" to "+o.To.Format(time.TimeOnly), "during", &o.During)
		row("", "after", &o.After)
	}
	_ = t.Flush()
}

// waits is a number of seconds as a duration, to the ms.
func waits(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

// roughly is a number of seconds as a duration, to the tenth.
func roughly(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second / 10).String()
}

func keyTable(b *strings.Builder, title string, keys []KeyCount) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, k := range keys {
		key := k.Key
		if key == "" {
			key = "(all)"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", number(k.Refused), printable(k.Rule), printable(key))
	}
	_ = t.Flush()
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

// number groups digits by three.
func number(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func percent(part, whole int64) string {
	switch {
	case whole == 0:
		return "-"
	case part > 0 && part*1000 < whole:
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

// printable keeps what a log holds from moving the cursor of a terminal, and from filling it.
func printable(text string) string {
	const longest = 240
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest-3], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
