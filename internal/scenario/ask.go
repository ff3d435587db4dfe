package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// verbs are the commands, each with the names that it knows besides key; * marks the one that it needs.
var verbs = map[string]string{
	"take":    "n repeat every",
	"peek":    "",
	"refund":  "*n",
	"reserve": "n *id maxwait hold",
	"settle":  "*n *id",
	"cancel":  "*id",
	"acquire": "n *id",
	"renew":   "*id",
	"release": "*id",
	"reset":   "",
	"plot":    "n *for *every",
}

// ask asks the store and notes the answer.
func (s *story) ask(verb, rest, line string) error {
	names, ok := verbs[verb]
	if !ok {
		return fmt.Errorf("unknown command %q", verb)
	}
	r, given, err := s.read(rest)
	if err != nil {
		return err
	}
	held := given["hold"]
	for name := range strings.FieldsSeq(names) {
		needed, must := strings.CutPrefix(name, "*")
		if must && !given[needed] {
			return fmt.Errorf("%s needs %s", verb, needed)
		}
		delete(given, needed)
	}
	delete(given, "key")
	for name := range given {
		return fmt.Errorf("%s has no %s", verb, name)
	}
	ctx := context.Background()
	switch verb {
	case "settle", "cancel":
		if verb == "cancel" {
			r.n = 0
		}
		s.say(line, outcome(s.store.Settle(ctx, r.id, r.charges, r.n)))
	case "renew":
		s.say(line, outcome(s.store.Renew(ctx, r.id, r.charges)))
	case "release":
		s.say(line, outcome(s.store.Release(ctx, r.id, r.charges)))
	case "reset":
		s.say(line, outcome(s.store.Reset(ctx, r.charges)))
	case "plot":
		return s.plot(r, line)
	case "peek", "refund":
		if verb == "peek" {
			r.n = 0
		}
		for i := range r.charges {
			r.charges[i].Cost = -r.n
		}
		s.take(r, line)
	case "reserve":
		for i := range r.charges {
			if !held {
				r.charges[i].Hold = time.Hour
			}
		}
		s.take(r, line)
	default:
		s.take(r, line)
	}
	return nil
}

// take takes, once or in a row, and notes what was decided.
func (s *story) take(r request, line string) {
	allowed := 0
	for i := range r.repeat {
		if i > 0 {
			s.pass(r.every)
		}
		decisions, err := s.store.Take(context.Background(), r.charges, nil)
		if err != nil {
			s.say(line, outcome(err))
			return
		}
		whole := tidegate.Combine(r.charges, decisions)
		if whole.Allowed {
			allowed++
		}
		if i < r.repeat-1 {
			continue
		}
		result := describe(&whole)
		if len(decisions) > 1 && whole.Rule != "" {
			result = whole.Rule + ": " + result
		}
		if r.repeat > 1 {
			result = fmt.Sprintf("%d of %d allowed; the last: %s", allowed, r.repeat, result)
		}
		s.say(line, result)
		if len(decisions) == 1 && !r.charges[0].Shadow {
			return
		}
		for j := range decisions {
			s.rows = append(s.rows, row{"", "  " + r.names[j], describe(&decisions[j])})
		}
	}
}

// describe writes a decision.
func describe(d *tidegate.Decision) string {
	var b strings.Builder
	switch {
	case d.Source == tidegate.SourceShadow:
		return "allowed, all in shadow"
	case d.Allowed && d.Limit == tidegate.NoLimit:
		return "allowed, no limit"
	case d.Allowed && d.Delay > 0:
		b.WriteString("allowed in " + short(d.Delay))
	case d.Allowed:
		b.WriteString("allowed")
	case d.RetryAfter == tidegate.Never:
		b.WriteString("denied for ever")
	default:
		b.WriteString("denied, retry in " + short(d.RetryAfter))
	}
	fmt.Fprintf(&b, ", %d of %d left", d.Remaining, d.Limit)
	switch {
	case d.ResetAfter == tidegate.Never:
		b.WriteString(", never reset")
	case d.ResetAfter > 0:
		b.WriteString(", reset in " + short(d.ResetAfter))
	}
	return b.String()
}

// outcome writes what came of a call that decides nothing.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, tidegate.ErrUnknownID):
		return "error: unknown id"
	case errors.Is(err, tidegate.ErrUnsupported):
		return "error: not supported"
	}
	return "error: " + err.Error()
}
