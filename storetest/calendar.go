package storetest

import (
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
)

const ruleCalendar = "a calendar window is a day, week from Monday, month or year of its zone, however long that one is"

// calendarWindow is a window that begins at from and ends at to; its length is there for the reader.
type calendarWindow struct {
	limit    string
	from, to string
	length   time.Duration
}

var calendarWindows = []calendarWindow{
	// A day of 23 hours, one of 25, and the usual one between.
	{"5/day tz Europe/Vienna", "2100-03-27T23:00:00Z", "2100-03-28T22:00:00Z", 23 * time.Hour},
	{"5/day tz Europe/Vienna", "2100-10-30T22:00:00Z", "2100-10-31T23:00:00Z", 25 * time.Hour},
	{"5/day tz Europe/Vienna", "2100-06-30T22:00:00Z", "2100-07-01T22:00:00Z", day},
	// In Havana the clocks change at midnight: a day that begins at one o'clock, and one with two midnights.
	{"5/day tz America/Havana", "2100-03-14T05:00:00Z", "2100-03-15T04:00:00Z", 23 * time.Hour},
	{"5/day tz America/Havana", "2100-11-07T04:00:00Z", "2100-11-08T05:00:00Z", 25 * time.Hour},
	// Half hours, and a change of half an hour.
	{"5/day tz Asia/Kolkata", "2100-01-31T18:30:00Z", "2100-02-01T18:30:00Z", day},
	{"5/day tz Australia/Lord_Howe", "2100-10-02T13:30:00Z", "2100-10-03T13:00:00Z", 23*time.Hour + 30*time.Minute},
	// Both ends of the map.
	{"5/day tz Pacific/Kiritimati", "2100-01-03T10:00:00Z", "2100-01-04T10:00:00Z", day},
	{"5/day tz Pacific/Pago_Pago", "2100-01-04T11:00:00Z", "2100-01-05T11:00:00Z", day},
	// Weeks begin on Monday.
	{"5/week tz UTC", "2100-01-04T00:00:00Z", "2100-01-11T00:00:00Z", 7 * day},
	{"5/week tz Europe/Vienna", "2100-03-21T23:00:00Z", "2100-03-28T22:00:00Z", 7*day - time.Hour},
	{"5/week tz Europe/Vienna", "2100-10-24T22:00:00Z", "2100-10-31T23:00:00Z", 7*day + time.Hour},
	{"5/week tz America/New_York", "2099-12-28T05:00:00Z", "2100-01-04T05:00:00Z", 7 * day},
	// Months of every length.
	{"5/month", "2100-01-01T00:00:00Z", "2100-02-01T00:00:00Z", 31 * day},
	{"5/month", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", 28 * day}, // no leap year: a century
	{"5/month", "2104-02-01T00:00:00Z", "2104-03-01T00:00:00Z", 29 * day},
	{"5/month", "2100-04-01T00:00:00Z", "2100-05-01T00:00:00Z", 30 * day},
	{"5/month", "2100-12-01T00:00:00Z", "2101-01-01T00:00:00Z", 31 * day},
	{"5/month tz Asia/Shanghai", "2100-01-31T16:00:00Z", "2100-02-28T16:00:00Z", 28 * day},
	{"5/month tz Europe/Vienna", "2100-02-28T23:00:00Z", "2100-03-31T22:00:00Z", 31*day - time.Hour},
	// Years.
	{"5/year", "2100-01-01T00:00:00Z", "2101-01-01T00:00:00Z", 365 * day},
	{"5/year", "2104-01-01T00:00:00Z", "2105-01-01T00:00:00Z", 366 * day},
	{"5/year tz Pacific/Auckland", "2100-12-31T11:00:00Z", "2101-12-31T11:00:00Z", 365 * day},
}

func calendarCases() []testCase {
	cases := make([]testCase, 0, len(calendarWindows)+3)
	for _, w := range calendarWindows {
		name := fmt.Sprintf("%s from %s", w.limit, w.from)
		cases = append(cases, testCase{name, ruleCalendar, func(x *trial) { calendarWindowCase(x, w) }})
	}
	return append(cases,
		testCase{"a day with two midnights is one", ruleCalendar, twoMidnights},
		testCase{"a year of days", ruleCalendar, yearOfDays},
		testCase{"next window", "a reservation on a calendar window starts with the next one", calendarReserve},
	)
}

func (x *trial) instant(text string) time.Time {
	x.Helper()
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		x.Fatalf("the suite is wrong: %v", err)
	}
	return t
}

func calendarWindowCase(x *trial, w calendarWindow) {
	from, to := x.instant(w.from), x.instant(w.to)
	if to.Sub(from) != w.length {
		x.Fatalf("the suite is wrong: from %v to %v is not %v", from, to, w.length)
	}
	b := x.bucket(w.limit)
	x.set(from.Add(-us)) // the window before
	b.wants(5, "yes 0/5 reset 1µs")
	b.wants(1, "no 0/5 retry 1µs reset 1µs")
	x.set(from)
	b.wants(3, fmt.Sprintf("yes 2/5 reset %v", w.length))
	middle := w.length / 2
	x.set(from.Add(middle))
	b.wants(2, fmt.Sprintf("yes 0/5 reset %v", w.length-middle))
	x.set(to.Add(-us))
	b.wants(1, "no 0/5 retry 1µs reset 1µs")
	x.set(to)
	b.wants(0, "yes 5/5")
}

func twoMidnights(x *trial) {
	b := x.bucket("5/day tz America/Havana")
	for _, at := range []string{"2100-11-07T04:00:00Z", "2100-11-07T04:59:59.999999Z", "2100-11-07T05:00:00Z", "2100-11-07T05:30:00Z", "2100-11-08T04:59:59Z"} {
		x.set(x.instant(at))
		if d := b.take(1); !d.Allowed {
			x.Errorf("at %s: %s", at, say(d))
		}
	}
	b.wants(1, "no 0/5 retry 1s reset 1s")
	x.set(x.instant("2100-11-08T05:00:00Z"))
	b.wants(1, "yes 4/5 reset 24h0m0s")
}

// yearOfDays empties each day of a year anew: the windows leave no gap and do not overlap.
func yearOfDays(x *trial) {
	b := x.bucket("1/day tz America/New_York")
	x.set(x.instant("2100-01-01T05:00:00Z"))
	var short, long int
	for n := range 365 {
		d := b.take(1)
		if !d.Allowed {
			x.Fatalf("day %d: %s", n, say(d))
		}
		switch d.ResetAfter {
		case 23 * time.Hour:
			short++
		case 25 * time.Hour:
			long++
		case day:
		default:
			x.Errorf("day %d has %v", n, d.ResetAfter)
		}
		x.advance(d.ResetAfter)
	}
	if short != 1 || long != 1 || !x.now().Equal(x.instant("2101-01-01T05:00:00Z")) {
		x.Errorf("%d days of 23 hours and %d of 25, and the year ended at %v", short, long, x.now())
	}
}

func calendarReserve(x *trial) {
	b := x.bucket("5/month")
	x.set(x.instant("2100-02-15T00:00:00Z"))
	b.drain()
	if _, d := b.reserve(3, 14*day, 0); say(d) != "yes 0/5 delay 336h0m0s reset 1080h0m0s" { // to the end of March
		x.Errorf("a reservation for March: %s", say(d))
	}
	if _, d := b.reserve(3, tidegate.Never, 0); say(d) != "no 0/5 retry 1080h0m0s reset 1080h0m0s" {
		x.Errorf("a reservation for April: %s", say(d))
	}
	x.set(x.instant("2100-03-01T00:00:00Z"))
	b.wants(0, "yes 2/5 reset 744h0m0s")
}
