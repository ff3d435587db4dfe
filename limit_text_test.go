package tidegate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/tidegate-go/tidegate"
)

// TestParseLimit reads testdata/limits.txt: each directive is a group of limits, one a line, and what they mean or what
// is wrong with them. A line that begins with a double quote is a Go string. After a change of the messages run
//
//	go test -run TestParseLimit . -rewrite
//
// and read what has changed.
func TestParseLimit(t *testing.T) {
	datadriven.RunTest(t, "testdata/limits.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			text := strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(text, `"`) {
				unquoted, err := strconv.Unquote(text)
				if err != nil {
					d.Fatalf(t, "%s: %v", text, err)
				}
				text = unquoted
			}
			l, err := tidegate.ParseLimit(text)
			switch {
			case d.Cmd == "good" && err == nil:
				fmt.Fprintln(&out, describe(t, l))
			case d.Cmd == "bad" && err != nil:
				checkMessage(t, text, err)
				fmt.Fprintln(&out, err)
			case err != nil:
				t.Errorf("%v", err)
			default:
				t.Errorf("%q is accepted as %q", text, l)
			}
			if err != nil && l != (tidegate.Limit{}) {
				t.Errorf("%q: a limit besides the error: %+v", text, plain(l))
			}
		}
		return out.String()
	})
}

// plain is a limit that shows its fields.
type plain tidegate.Limit

// describe writes the limit as String does, and its fields, which String may not tell.
func describe(t *testing.T, l tidegate.Limit) string {
	t.Helper()
	if l != l.Normalize() {
		t.Errorf("%s is not normalized: %+v", l, plain(l))
	}
	fields := strings.Fields(strings.Trim(fmt.Sprintf("%+v", plain(l)), "{}"))
	shown := fields[:0]
	for _, f := range fields {
		if name, value, _ := strings.Cut(f, ":"); value != "" && value != "0" && value != "0s" && name != "Algorithm" {
			shown = append(shown, f)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%-40s  %v %s", l, l.Algorithm, strings.Join(shown, " ")))
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// checkMessage holds every error to what a person needs: one line that names the limit, says what is wrong with it and
// shows a right one.
func checkMessage(t *testing.T, text string, err error) {
	t.Helper()
	le, ok := errors.AsType[*tidegate.LimitError](err)
	switch {
	case !ok:
		t.Errorf("%q: a %T", text, err)
		return
	case le.Text != text:
		t.Errorf("%q: the error is about %q", text, le.Text)
	case le.Problem == "" || le.Hint == "":
		t.Errorf("%q: a problem %q with the hint %q", text, le.Problem, le.Hint)
	}
	for _, c := range err.Error() {
		if c < ' ' || c == 0x7f {
			t.Errorf("%q: the message holds a control character: %q", text, err)
			break
		}
	}
	for _, q := range quoted.FindAllStringSubmatch(le.Hint, -1) {
		if _, err := tidegate.ParseLimit(q[1]); err == nil {
			return
		}
	}
	t.Errorf("%v: the hint shows no right limit", err)
}

// Every limit that is good is written as a text that means the same.
func TestLimitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawSpread(t, drawLimit(t))
		if l.Validate() != nil {
			t.Skip("not a good limit")
		}
		got, err := tidegate.ParseLimit(l.String())
		if err != nil {
			t.Fatalf("%+v is written as %q: %v", plain(l), l, err)
		}
		if want := l.Normalize(); got != want {
			t.Fatalf("%+v is written as %q, which is read as %+v", plain(want), l, plain(got))
		}
	})
}

// The options of a limit mean the same in any order, and words in any case and with any spaces between.
func TestOptionsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawSpread(t, drawLimit(t))
		if l.Validate() != nil || l.Algorithm == tidegate.None || l.Algorithm == tidegate.Unlimited {
			t.Skip("nothing to reorder")
		}
		words := strings.Fields(l.String())
		head := words[:1]
		if l.Algorithm == tidegate.Concurrency {
			head = words[:2]
		}
		var options [][]string
		for rest := words[len(head):]; len(rest) > 0; {
			n := 2
			if strings.Contains(rest[0], "-") { // an algorithm, which has no value
				n = 1
			}
			options, rest = append(options, rest[:n]), rest[n:]
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
		text := "\t " + strings.Join(head, "  ")
		for _, o := range options {
			name := o[0]
			if r.IntN(2) == 0 {
				name = strings.ToUpper(name)
			}
			text += " " + name + "\n" + strings.Join(o[1:], "")
		}
		got, err := tidegate.ParseLimit(text)
		if want := l.Normalize(); err != nil || got != want {
			t.Fatalf("%q is read as %+v (%v), want %+v", text, plain(got), err, plain(want))
		}
	})
}

// String is for people, too: a limit that is not good must not make it panic.
func TestStringOfBadLimits(t *testing.T) {
	for _, l := range []tidegate.Limit{
		{},
		{Rate: -1, Per: -1, Burst: -1, Queue: -1, Slices: -1, Warmup: -1, TTL: -1, Lease: -1, Shards: -1},
		{Algorithm: 200, Calendar: 200, Zone: "\x00"},
		{Rate: 1, Per: time.Nanosecond},
	} {
		if got := l.String(); got == "" {
			t.Errorf("%+v: an empty text", plain(l))
		}
	}
}
