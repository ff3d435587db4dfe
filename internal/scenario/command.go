package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// command runs a line: first what it says about time, then what it asks of the store.
func (s *story) command(line string) error {
	for {
		verb, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch verb {
		case "begin":
			return s.beginAt(rest)
		case "limit", "set-limit":
			return s.defineLimit(verb, rest, line)
		case "clock":
			d, err := time.ParseDuration(rest)
			s.micros.Add(int64(d / time.Microsecond))
			s.say(line, "")
			return err
		case "after":
			word, next, _ := strings.Cut(rest, " ")
			d, err := time.ParseDuration(word)
			if err != nil || d < 0 {
				return fmt.Errorf("%q is not a time to pass", word)
			}
			s.pass(d)
			line = strings.TrimSpace(next)
		case "at":
			next, err := s.at(rest)
			if err != nil {
				return err
			}
			line = next
		default:
			return s.ask(verb, rest, line)
		}
		if line == "" {
			return nil
		}
	}
}

// beginAt sets the clock and the zone: "2100-03-28 01:00 Europe/Vienna".
func (s *story) beginAt(rest string) error {
	words := strings.Fields(rest)
	if len(words) != 3 || s.passed != 0 || len(s.views) > 0 {
		return errors.New("a story begins with a date, a time and a zone, before anything else")
	}
	zone, err := time.LoadLocation(words[2])
	if err != nil {
		return err
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", words[0]+" "+words[1], zone)
	s.zone = zone
	s.start(at)
	return err
}

// at lets time pass until a time, and returns the rest of the line.
func (s *story) at(rest string) (string, error) {
	word, next, _ := strings.Cut(rest, " ")
	next = strings.TrimSpace(next)
	if d, err := time.ParseDuration(word); err == nil {
		return next, s.passTo(d - time.Duration(s.passed)*time.Microsecond)
	}
	if s.zone == nil {
		return "", fmt.Errorf("%q is not a time since the beginning", word)
	}
	clock, next, _ := strings.Cut(next, " ")
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02 15:04:05.999999"} {
		if at, err := time.ParseInLocation(layout, word+" "+clock, s.zone); err == nil {
			return strings.TrimSpace(next), s.passTo(at.Sub(s.clock()))
		}
	}
	return "", fmt.Errorf("%q is not a time", word+" "+clock)
}

func (s *story) passTo(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("that was %v ago", -d)
	}
	s.pass(d)
	return nil
}

// defineLimit reads "[view] [version=T]: limit", or a limit alone.
func (s *story) defineLimit(verb, rest, line string) error {
	name, version := "limit", int64(0)
	if verb == "set-limit" {
		version = s.micros.Load()
	}
	text := rest
	if head, tail, ok := strings.Cut(rest, ": "); ok {
		text = tail
		for word := range strings.FieldsSeq(head) {
			at, isVersion := strings.CutPrefix(word, "version=")
			if !isVersion {
				name = word
				continue
			}
			d, err := time.ParseDuration(at)
			if err != nil {
				return err
			}
			version = s.base + int64(d/time.Microsecond)
		}
	}
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		return err
	}
	if s.views[name] == nil != (verb == "limit") {
		return fmt.Errorf("limit gives a rule its first limit, set-limit changes it: %s", name)
	}
	rule, _, _ := strings.Cut(name, "@")
	s.views[name] = &view{rule, &l, version}
	s.say(line, "")
	return nil
}

// request is what a command asks.
type request struct {
	charges    []tidegate.Charge
	names      []string // of the charges, as they were written
	n          int64
	id         string
	repeat     int
	every, run time.Duration
}

// read reads the words of a command: buckets, and name=value. given tells which names there were.
func (s *story) read(rest string) (r request, given map[string]bool, err error) {
	r = request{n: 1, repeat: 1}
	given = map[string]bool{}
	var maxWait, hold time.Duration
	key := "k"
	var buckets []string
	for word := range strings.FieldsSeq(rest) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			buckets = append(buckets, word)
			continue
		}
		given[name] = true
		switch name {
		case "n":
			r.n, err = strconv.ParseInt(value, 10, 64)
		case "key":
			key = value
		case "id":
			r.id = value
		case "repeat":
			r.repeat, err = strconv.Atoi(value)
		case "every":
			r.every, err = time.ParseDuration(value)
		case "for":
			r.run, err = time.ParseDuration(value)
		case "maxwait":
			maxWait, err = time.ParseDuration(value)
		case "hold":
			hold, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("there is no %q", name)
		}
		if err != nil {
			return r, nil, err
		}
	}
	if len(buckets) == 0 {
		buckets = []string{"limit/" + key}
	}
	for _, b := range buckets {
		c, err := s.charge(b, r.n)
		if err != nil {
			return r, nil, err
		}
		c.MaxWait, c.Hold, c.ID = maxWait, hold, r.id
		r.charges, r.names = append(r.charges, c), append(r.names, b)
	}
	return r, given, nil
}

// charge reads "rule/key", "rule@view/key*3" or "rule/key?".
func (s *story) charge(word string, n int64) (c tidegate.Charge, err error) {
	word, c.Shadow = strings.CutSuffix(word, "?")
	word, cost, ok := strings.Cut(word, "*")
	if ok {
		if n, err = strconv.ParseInt(cost, 10, 64); err != nil {
			return c, err
		}
	}
	name, key, _ := strings.Cut(word, "/")
	if strings.ContainsAny(key, "*?") {
		return c, fmt.Errorf("the cost comes before the shadow, as in %s/k*3?", name)
	}
	v := s.views[name]
	if v == nil {
		return c, fmt.Errorf("nobody has said what the limit of %q is", name)
	}
	c.Rule, c.Key, c.Limit, c.Version, c.Cost = v.rule, key, v.limit, v.version, n
	return c, nil
}
