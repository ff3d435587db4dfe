package accesslog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The times that a log can have been written at; what is outside was read from the wrong field.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// The layouts of times with letters, dashes or slashes in them. A fraction of the second may follow the seconds of each.
var layouts = []struct {
	layout string
	length int // that a text has at least
}{
	{"02/Jan/2006:15:04:05 -0700", 26},      // common log
	{"2006-01-02T15:04:05Z07:00", 20},       // RFC 3339
	{"2006-01-02T15:04:05-0700", 24},        // ISO 8601 without the colon
	{"2006-01-02 15:04:05Z07:00", 20},       // the same with a space
	{"2006-01-02 15:04:05 -0700", 25},       // as PostgreSQL and Ruby write it
	{"2006/01/02 15:04:05", 19},             // Go's log package, in UTC for want of a zone
	{"2006-01-02T15:04:05", 19},             // in UTC for want of a zone
	{"2006-01-02 15:04:05", 19},             // in UTC for want of a zone
	{"2006-01-02\t15:04:05", 19},            // W3C: date and time in two columns, in UTC
	{"Mon, 02 Jan 2006 15:04:05 -0700", 31}, // HTTP's and mail's, whose zones may be named: see zones
	{"02/Jan/2006:15:04:05", 20},            // common log without its zone
}

// zones are the names that RFC 5322 gives an offset; any other, such as CET, may mean several, and package time would take it for
// UTC.
var zones = map[string]string{
	"GMT": "+0000", "UTC": "+0000", "UT": "+0000", "Z": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// parseTime reads a time as logs write them, with or without brackets around it: a date, or seconds, ms, µs or ns since 1970,
// whichever gives a time between 1990 and 2200. It reports whether the text has no more than whole seconds.
func parseTime(text string) (t time.Time, whole bool, err error) {
	text = strings.Trim(text, "[]\" ")
	if text == "" {
		return t, false, fmt.Errorf("there is no time")
	}
	if t, whole, ok := commonTime(text); ok {
		return t, whole, nil
	}
	if t, whole, ok := epochTime(text); ok {
		return within(t, whole, text)
	}
	form, leap := text, time.Duration(0)
	if at := strings.LastIndexByte(text, ' ') + 1; at > 0 && strings.Trim(text[at:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		offset, ok := zones[text[at:]]
		if !ok {
			return t, false, fmt.Errorf("%s: the zone %s may mean several: write an offset such as +0100, or GMT", quoted(text), quoted(text[at:]))
		}
		form = text[:at] + offset
	}
	if at := strings.LastIndex(form, ":60"); at > 2 && form[at-3] == ':' { // a leap second is the first of the next minute, as in Unix time
		form, leap = form[:at]+":59"+form[at+3:], time.Second
	}
	for _, l := range layouts {
		if len(form) < l.length {
			continue
		}
		if t, err := time.Parse(l.layout, form); err == nil {
			return within(t.Add(leap), t.Nanosecond() == 0 && !strings.Contains(text, ".0") && !strings.Contains(text, ",0"), text)
		}
	}
	return t, false, fmt.Errorf("%s is no time that is known: a date such as 2006-01-02T15:04:05Z, or seconds or ms since 1970", quoted(text))
}

func within(t time.Time, whole bool, text string) (time.Time, bool, error) {
	if t.Before(earliest) || t.After(latest) {
		return t, false, fmt.Errorf("%s is a time before 1990 or after 2200", quoted(text))
	}
	return t, whole, nil
}

// epochTime reads a number of seconds, ms, µs or ns.
func epochTime(text string) (t time.Time, whole, ok bool) {
	digits, fraction, dotted := strings.Cut(text, ".")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || number(fraction) < 0 {
		f, err := strconv.ParseFloat(text, 64) // 1.7e9, as some JSON writers have it
		if err != nil || !(f > 0 && f < 1e19) || strings.ContainsAny(text, "xXpP_nN") {
			return t, false, false
		}
		return epoch(int64(f), int64((f-float64(int64(f)))*1e9)), f == float64(int64(f)), true
	}
	ns := int64(0)
	if dotted {
		if fraction == "" {
			return t, false, false
		}
		ns = int64(number((fraction + "000000000")[:9]))
	}
	return epoch(n, ns), !dotted && n < 1e11, true
}

// epoch is a number since 1970 in the unit that makes it a time of our days; with one of seconds comes a fraction in ns.
func epoch(n, ns int64) time.Time {
	switch {
	case n < 1e11:
		return time.Unix(n, ns).UTC()
	case n < 1e14:
		return time.UnixMilli(n).Add(time.Duration(ns / 1e3)).UTC()
	case n < 1e17:
		return time.UnixMicro(n).Add(time.Duration(ns / 1e6)).UTC()
	}
	return time.Unix(0, n).UTC()
}

var months = map[string]time.Month{
	"Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}

// commonTime reads 02/Jan/2006:15:04:05 -0700, several times as fast as package time does: most logs are of such.
func commonTime(s string) (t time.Time, whole, ok bool) {
	if len(s) != 26 || s[2] != '/' || s[6] != '/' || s[11] != ':' || s[14] != ':' || s[17] != ':' || s[20] != ' ' {
		return t, false, false
	}
	day, hour, minute, second := number(s[0:2]), number(s[12:14]), number(s[15:17]), number(s[18:20])
	year, month := number(s[7:11]), months[s[3:6]]
	zoneHour, zoneMinute := number(s[22:24]), number(s[24:26])
	if day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 || year < 1990 || year > 2199 ||
		month == 0 || zoneHour < 0 || zoneHour > 23 || zoneMinute < 0 || zoneMinute > 59 || s[21] != '+' && s[21] != '-' {
		return t, false, false
	}
	t = time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if t.Day() != day { // 31/Feb
		return t, false, false
	}
	zone := time.Duration(zoneHour)*time.Hour + time.Duration(zoneMinute)*time.Minute
	if s[21] == '+' {
		zone = -zone
	}
	return t.Add(zone), true, true
}

// number reads digits, of which there are at most 18 that count; -1 if there is anything else.
func number(s string) int {
	n := 0
	for i := range min(len(s), 18) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// quoted shows a part of a line in a message.
func quoted(text string) string {
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:57], "") + "…"
	}
	return strconv.Quote(text)
}
