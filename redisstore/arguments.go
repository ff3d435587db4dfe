package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// arguments are the keys and the specs of a call.
type arguments struct {
	keys  []string
	specs []*compiled
	index map[string]int    // of keys, once there are many
	asked map[string]string // boundaries by calendar that a script asked for
}

// keyIndex returns the number by which a script knows a key, adding it if it is new.
func (a *arguments) keyIndex(k string) int {
	const few = 8
	if a.index == nil {
		for i := range a.keys {
			if a.keys[i] == k {
				return i + 1
			}
		}
		if len(a.keys) == few {
			a.index = make(map[string]int, 4*few)
			for i, k := range a.keys {
				a.index[k] = i + 1
			}
		}
	}
	if a.index != nil {
		if i, ok := a.index[k]; ok {
			return i
		}
		a.index[k] = len(a.keys) + 1
	}
	a.keys = append(a.keys, k)
	return len(a.keys)
}

// specIndex returns the number by which a script knows a limit, adding it if it is new.
func (a *arguments) specIndex(l *compiled) int {
	for i := range a.specs {
		if a.specs[i] == l {
			return i + 1
		}
	}
	a.specs = append(a.specs, l)
	return len(a.specs)
}

// command begins the command of every script but run, up to the specs: see state.lua.
func (a *arguments) command(now int64, rest int) []any {
	args := scriptCall(nil, len(a.keys), scriptArgs+len(a.keys)+1+3*len(a.specs)+rest+1)
	for _, k := range a.keys {
		args = append(args, k)
	}
	args = append(args, len(a.specs))
	for _, l := range a.specs {
		bounds := ""
		if l.params.Calendar() {
			bounds = boundaries(l.params, now)
		}
		for _, asked := range a.asked {
			bounds = asked + ";" + bounds
		}
		args = append(args, l.version, l.params.Spec, bounds)
	}
	return args
}

// boundaries writes the calendar of a limit and boundaries of its windows around now: "day Asia/Shanghai|0 1 2 3 4 5".
func boundaries(p *algo.Params, now int64) string {
	var b strings.Builder
	b.WriteString(calendarOf(p.Spec))
	for i, t := range p.Boundaries(now) {
		b.WriteByte("| "[min(i, 1)])
		b.WriteString(strconv.FormatInt(t, 10))
	}
	return b.String()
}

// calendarOf returns the unit and the zone of a calendar's spec: "f 10 0 day Asia/Shanghai".
func calendarOf(spec string) string {
	parts := strings.SplitN(spec, " ", 4)
	return parts[len(parts)-1]
}

// ask runs a script, and once more where it says that it did nothing and what it needs: the boundaries of a calendar
// around its time, or the functions for all kinds of limits.
func (s *Store) ask(ctx context.Context, set scriptSet, all bool, a *arguments, rest []any) (any, error) {
	for range len(a.keys) + len(a.specs) + 2 {
		sc := set.buckets
		if all {
			sc = set.all
		}
		reply, err := s.run(ctx, sc, s.timed(append(a.command(s.cfg.Now().UnixMicro(), len(rest)), rest...)))
		if err != nil {
			return nil, err
		}
		text, _ := reply.(string)
		if list, ok := reply.([]any); ok && len(list) == 1 {
			text, _ = list[0].(string)
		}
		switch {
		case text == "!":
			all = true
		case strings.HasPrefix(text, "?"):
			if err := a.answer(text[1:]); err != nil {
				return nil, err
			}
		default:
			return reply, nil
		}
	}
	return nil, errors.New("the script keeps asking: is the clock of the server jumping?")
}

// timed appends the injected time, if there is one.
func (s *Store) timed(args []any) []any {
	if s.inject != nil {
		args = append(args, s.inject())
	}
	return args
}

// answer works out the boundaries that a script asked for: "TIME UNIT ZONE".
func (a *arguments) answer(text string) error {
	at, calendar, _ := strings.Cut(text, " ")
	unit, zone, _ := strings.Cut(calendar, " ")
	now, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("the script asked for %q", text)
	}
	l, err := tidegate.ParseLimit("1/" + unit + " tz " + zone)
	if err != nil {
		return err
	}
	p, err := algo.Compile(l)
	if err != nil {
		return err
	}
	if a.asked == nil {
		a.asked = map[string]string{}
	}
	a.asked[calendar] = boundaries(p, now)
	return nil
}
