package tidegate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// units are the periods that the grammar names, longest first; calendar is set where the unit can follow a calendar.
var units = []struct {
	name     string // the canonical name
	others   []string
	length   time.Duration // 0 for a unit that has no constant length
	calendar Calendar
}{
	{"year", []string{"years", "yr", "y"}, 0, CalendarYear},
	{"month", []string{"months", "mon"}, 0, CalendarMonth},
	{"week", []string{"weeks", "wk", "w"}, 7 * 24 * time.Hour, CalendarWeek},
	{"day", []string{"days", "d"}, 24 * time.Hour, CalendarDay},
	{"h", []string{"hour", "hours", "hr", "hrs"}, time.Hour, NoCalendar},
	{"min", []string{"minute", "minutes", "mins", "m"}, time.Minute, NoCalendar},
	{"s", []string{"second", "seconds", "sec", "secs"}, time.Second, NoCalendar},
	{"ms", []string{"millisecond", "milliseconds"}, time.Millisecond, NoCalendar},
	{"us", []string{"µs", "microsecond", "microseconds"}, time.Microsecond, NoCalendar},
}

// options are the words that take a value, each with a limit that shows how.
var options = []struct{ name, example string }{
	{"burst", "10/s burst 20"},
	{"queue", "10/s leaky-bucket queue 5"},
	{"slices", "100/min sliding-window slices 6"},
	{"warmup", "100/s warmup 16s"},
	{"tz", "1000/day tz Asia/Shanghai"},
	{"ttl", "20 concurrent ttl 1m"},
	{"lease", "600/s burst 100 lease 50ms"},
	{"shards", "10000/s burst 1000 shards 8"},
}

// ParseLimit reads a limit as rule files and the command write it, options in any order:
//
//	none | unlimited | N concurrent [ttl D] |
//	N/[K]unit [burst B] [algorithm] [queue Q] [slices K] [warmup D] [tz Zone] [lease D] [shards K]
//
// The units are us, ms, s, min, h, day, week, month and year and their usual spellings, the algorithms token-bucket (the
// default), leaky-bucket, fixed-window, sliding-window and sliding-log. A day is 24 h and a week 7 × 24 h unless tz is
// given. Month, year and anything with tz follow the calendar, which only a fixed window can, so that they imply it.
// D is a duration such as 90s or 1h30m. Leases belong to token buckets, shards to token buckets and windows.
// The result is normalized; an error is a [*LimitError].
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(strings.Fields(text))
	if err == nil {
		l = l.Normalize()
		err = l.Validate()
	}
	if err != nil {
		if le, ok := errors.AsType[*LimitError](err); ok {
			le.Text = text
		}
		return Limit{}, err
	}
	return l, nil
}

func parseLimit(words []string) (Limit, error) {
	if len(words) == 0 {
		return Limit{}, limitErrorf("the limit is empty").hint(`write for example "10/s burst 20", "20 concurrent" or "unlimited"`)
	}
	var l Limit
	rest := words[1:]
	switch first := strings.ToLower(words[0]); {
	case first == "none" || first == "unlimited":
		l.Algorithm = None
		if first == "unlimited" {
			l.Algorithm = Unlimited
		}
		if len(rest) > 0 {
			if strings.EqualFold(rest[0], "until") {
				return l, notYet("until", first)
			}
			return l, limitErrorf("%q after %s", rest[0], first).hint(fmt.Sprintf("write %q alone", first))
		}
		return l, nil
	case len(rest) > 0 && strings.EqualFold(rest[0], "concurrent"):
		n, err := parseCount("the number of permits", words[0], `"20 concurrent"`)
		if err != nil {
			return l, err
		}
		l.Rate, l.Algorithm = n, Concurrency
		rest = rest[1:]
	default:
		if err := l.parseRate(words[0]); err != nil {
			return l, err
		}
	}
	if err := l.parseOptions(rest); err != nil {
		return l, err
	}
	return l, nil
}

// parseRate reads "N/[K]unit".
func (l *Limit) parseRate(word string) error {
	count, period, ok := strings.Cut(word, "/")
	if !ok {
		if _, err := strconv.ParseFloat(word, 64); err == nil {
			n, err := parseCount("the rate", word, `"10/s burst 20"`)
			if err != nil {
				return err
			}
			n = min(n, maxEntries) // what is shown is to be right
			return limitErrorf("no period").hint(fmt.Sprintf(`say how often, as in "%d/s", or write "%d concurrent"`, n, n))
		}
		return notARate(word)
	}
	n, err := parseCount("the rate", count, `"10/s burst 20"`)
	if err != nil {
		return err
	}
	l.Rate = n
	digits := 0
	for digits < len(period) && (period[digits] >= '0' && period[digits] <= '9' || strings.IndexByte("+-.", period[digits]) >= 0) {
		digits++
	}
	many := int64(1)
	if digits > 0 {
		if many, err = parseCount("the period", period[:digits], `"10/s" or "10/30s"`); err != nil {
			return err
		}
	}
	name := strings.ToLower(period[digits:])
	for _, u := range units {
		if u.name != name && !slices.Contains(u.others, name) {
			continue
		}
		if u.length == 0 {
			if many != 1 {
				return limitErrorf("%d calendar units of a %s", many, u.name).hint(fmt.Sprintf(`a calendar window is one unit: write "1000/%s"`, u.name))
			}
			l.Calendar, l.Algorithm = u.calendar, FixedWindow
			return nil
		}
		if many > math.MaxInt64/int64(u.length) {
			return limitErrorf("a period of %s is too long", period).hint(`the longest is 50 years, as in "1/18250day"`)
		}
		l.Per = time.Duration(many) * u.length
		return nil
	}
	if name == "" {
		return limitErrorf("the period has no unit").hint(`write for example "10/s", "10/min" or "10/30s"`)
	}
	return limitErrorf("%q is not a unit of time", period[digits:]).hint(`the units are s, min, h, day, week, month and year, as in "10/2week"`)
}

func (l *Limit) parseOptions(words []string) error {
	seen := map[string]bool{}
	algorithm := ""
	for len(words) > 0 {
		word := strings.ToLower(words[0])
		if a, ok := algorithmNamed(word); ok {
			if algorithm != "" || l.Algorithm == Concurrency {
				return limitErrorf("a second algorithm, %s", word).hint(`give one, as in "10/s sliding-window" or "20 concurrent"`)
			}
			algorithm = word
			if l.Calendar != NoCalendar && a != FixedWindow {
				return Limit{Rate: l.Rate, Calendar: l.Calendar, Algorithm: a}.unused()
			}
			l.Algorithm = a
			words = words[1:]
			continue
		}
		if word == "until" {
			return notYet(word, "10/s burst 20")
		}
		example := exampleOf(word)
		if example == "" {
			return notAnOption(words[0])
		}
		if seen[word] {
			return limitErrorf("%s is given twice", word).hint(fmt.Sprintf("give it once, as in %q", example))
		}
		seen[word] = true
		if len(words) == 1 {
			return limitErrorf("%s has no value", word).hint(fmt.Sprintf("write for example %q", example))
		}
		if err := l.setOption(word, words[1]); err != nil {
			return err
		}
		words = words[2:]
	}
	if seen["queue"] && l.Queue == 0 { // which setOption keeps as 0, and Validate cannot see
		return Limit{Queue: 1, Algorithm: l.Algorithm}.unused()
	}
	if l.Zone != "" {
		l.followCalendar(algorithm != "")
	}
	return nil
}

// followCalendar turns a day or a week with a time zone into the calendar's.
func (l *Limit) followCalendar(algorithmGiven bool) {
	for _, u := range units {
		if l.Calendar == NoCalendar && u.length != 0 && u.length == l.Per && u.calendar != NoCalendar {
			l.Calendar, l.Per = u.calendar, 0
		}
	}
	if l.Calendar != NoCalendar && !algorithmGiven {
		l.Algorithm = FixedWindow
	}
}

func (l *Limit) setOption(word, value string) (err error) {
	example := fmt.Sprintf("%q", exampleOf(word))
	switch word {
	case "burst":
		l.Burst, err = parseCount("the burst", value, example)
	case "queue":
		if value == "0" {
			return nil
		}
		l.Queue, err = parseCount("the queue", value, example)
	case "slices":
		var n int64
		if n, err = parseCount("the number of slices", value, example); err == nil {
			l.Slices = int(min(n, math.MaxInt))
		}
	case "warmup":
		l.Warmup, err = parseDuration(word, value, example)
	case "ttl":
		l.TTL, err = parseDuration(word, value, example)
	case "lease":
		l.Lease, err = parseDuration(word, value, example)
	case "shards":
		var n int64
		if n, err = parseCount("the number of shards", value, example); err == nil {
			l.Shards = int(min(n, math.MaxInt))
		}
	case "tz":
		l.Zone = value
	}
	return err
}

// exampleOf returns a limit with the option, or the empty string for a word that is none.
func exampleOf(option string) string {
	for _, o := range options {
		if o.name == option {
			return o.example
		}
	}
	return ""
}

func algorithmNamed(word string) (Algorithm, bool) {
	for a := TokenBucket; a <= SlidingLog; a++ {
		if algorithmNames[a] == word {
			return a, true
		}
	}
	return 0, false
}

// parseCount reads a whole number of at least 1. The example is a limit, or several, in which what is right.
func parseCount(what, s, example string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n >= 1 && s[0] != '+' {
		return n, nil
	}
	f, ferr := strconv.ParseFloat(s, 64)
	huge := errors.Is(ferr, strconv.ErrRange)
	switch {
	case s == "":
		return 0, limitErrorf("%s is missing", what).hint("write a whole number, as in " + example)
	case ferr != nil && !huge || math.IsNaN(f) || strings.ContainsAny(s, "xXpP_"):
		return 0, limitErrorf("%s is %q, which is not a number", what, s).hint("write a whole number, as in " + example)
	case f <= 0:
		least := 1
		if what == "the queue" {
			least = 0
		}
		hint := fmt.Sprintf("it must be at least %d, as in %s", least, example)
		if what == "the rate" || what == "the burst" || what == "the number of permits" {
			hint += `; to let nothing pass write "none"`
		}
		return 0, limitErrorf("%s is %s", what, s).hint(hint)
	case f > maxExact:
		return 0, limitErrorf("%s of %s is too large to be counted exactly", what, s).hint(`write a number below 9007199254740992, as in "1000000/s"`)
	case f == math.Trunc(f): // 1e3, 10.0, +5
		return 0, limitErrorf("%s is %s, which is not written in digits alone", what, s).hint(fmt.Sprintf("write %.0f, in the form of %s", f, example))
	case what == "the rate":
		return 0, limitErrorf("%s is %s, which is not a whole number", what, s).hint(`for half a token a second write "1/2s"`)
	case what == "the period":
		return 0, limitErrorf("%s is %s, which is not a whole number", what, s).hint(`write a smaller unit, as in "10/500ms"`)
	default:
		return 0, limitErrorf("%s is %s, which is not a whole number", what, s).hint("write a whole number, as in " + example)
	}
}

// parseDuration reads a duration of Go, or a whole number of one of the units.
func parseDuration(what, s, example string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return 0, limitErrorf("%s is %s", what, s).hint("it must be longer than 0, as in " + example)
		}
		return d, nil
	}
	digits := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if digits > 0 {
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		for _, u := range units {
			name := strings.ToLower(s[digits:])
			if err == nil && u.length != 0 && (u.name == name || slices.Contains(u.others, name)) && n > 0 && n <= math.MaxInt64/int64(u.length) {
				return time.Duration(n) * u.length, nil
			}
		}
	}
	return 0, limitErrorf("%s is %q, which is not a duration", what, s).hint("write for example " + example)
}

// String writes the limit in the grammar of [ParseLimit], which reads it back to the same normalized limit.
func (l Limit) String() string {
	l = l.Normalize()
	switch l.Algorithm {
	case None, Unlimited:
		return l.Algorithm.String()
	case Concurrency:
		s := strconv.FormatInt(l.Rate, 10) + " concurrent"
		if l.TTL != defaultTTL {
			s += " ttl " + formatDuration(l.TTL)
		}
		return s
	case TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog:
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%s", l.Rate, l.period())
	if l.Burst != 0 && l.Burst != l.Rate {
		fmt.Fprintf(&b, " burst %d", l.Burst)
	}
	if l.Algorithm != TokenBucket {
		b.WriteString(" " + l.Algorithm.String())
	}
	if l.Queue != 0 {
		fmt.Fprintf(&b, " queue %d", l.Queue)
	}
	if l.Slices > 1 {
		fmt.Fprintf(&b, " slices %d", l.Slices)
	}
	if l.Warmup != 0 {
		b.WriteString(" warmup " + formatDuration(l.Warmup))
	}
	if l.Zone != "" && (l.Zone != "UTC" || l.Calendar <= CalendarWeek) {
		b.WriteString(" tz " + l.Zone)
	}
	if l.Lease != 0 {
		b.WriteString(" lease " + formatDuration(l.Lease))
	}
	if l.Shards > 1 {
		fmt.Fprintf(&b, " shards %d", l.Shards)
	}
	return b.String()
}

// period writes the period as "min" or "90s": the longest unit that divides it.
func (l Limit) period() string {
	for _, u := range units {
		if l.Calendar != NoCalendar {
			if u.calendar == l.Calendar {
				return u.name
			}
			continue
		}
		if u.length == 0 || l.Per%u.length != 0 || l.Per == 0 {
			continue
		}
		if n := int64(l.Per / u.length); n != 1 {
			return strconv.FormatInt(n, 10) + u.name
		}
		return u.name
	}
	return strconv.FormatInt(int64(l.Per), 10) + "ns"
}

// formatDuration writes 1m0s as 1m.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
