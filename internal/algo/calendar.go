package algo

import (
	"time"

	"github.com/tidegate-go/tidegate"
)

// Window returns the window that contains now: aligned to the epoch, or to the calendar of the limit's zone.
func (p *Params) Window(now int64) Window {
	if p.Kind != Fixed {
		return Window{}
	}
	if !p.Calendar() {
		start := now - now%p.width
		return Window{start, start + p.width, start + 2*p.width, start + 3*p.width}
	}
	if w := p.window.Load(); w != nil && w.Start <= now && now < w.End {
		return *w
	}
	start := p.startOf(now)
	end := p.following(start)
	next := p.following(end)
	w := &Window{start.UnixMicro(), end.UnixMicro(), next.UnixMicro(), p.following(next).UnixMicro()}
	p.window.Store(w)
	return *w
}

// Boundaries returns six boundaries of calendar windows in ascending order, of which the second begins the window that
// contains now: what a script needs whose clock differs from the caller's by less than a window.
func (p *Params) Boundaries(now int64) [6]int64 {
	start := p.startOf(now)
	var b [6]int64
	b[0] = p.startOf(start.UnixMicro() - 1).UnixMicro()
	for i := 1; i < len(b); i++ {
		b[i] = start.UnixMicro()
		start = p.following(start)
	}
	return b
}

// startOf returns the first moment of the unit that contains now.
func (p *Params) startOf(now int64) time.Time {
	t := time.UnixMicro(now).In(p.zone)
	y, m, d := t.Date()
	switch p.calendar {
	case tidegate.CalendarWeek:
		d -= (int(t.Weekday()) + 6) % 7
	case tidegate.CalendarMonth:
		d = 1
	case tidegate.CalendarYear:
		m, d = time.January, 1
	case tidegate.CalendarDay, tidegate.NoCalendar:
	}
	start := p.firstMoment(y, m, d)
	if start.After(t) {
		// The clocks went back across midnight and t is in the minutes that the next day had already begun.
		return p.startOf(start.UnixMicro() - int64(24*time.Hour/time.Microsecond))
	}
	if next := p.following(start); !next.After(t) {
		return next
	}
	return start
}

// following returns the start of the unit after the one that begins at start.
func (p *Params) following(start time.Time) time.Time {
	y, m, d := start.Date()
	switch p.calendar {
	case tidegate.CalendarWeek:
		d += 7
	case tidegate.CalendarMonth:
		m++
	case tidegate.CalendarYear:
		y++
	case tidegate.CalendarDay, tidegate.NoCalendar:
		d++
	}
	return p.firstMoment(y, m, d)
}

// firstMoment returns when a day begins in the zone: midnight, the first of two, or the moment that follows a midnight
// that the clocks skip. time.Date leaves open which of them it gives. It looks back from noon, which no zone skips.
func (p *Params) firstMoment(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 12, 0, 0, 0, p.zone)
	y, m, d = t.Date()
	for {
		hour, minute, sec := t.Clock()
		midnight := t.Add(-time.Duration(hour*3600+minute*60+sec) * time.Second)
		since, _ := t.ZoneBounds()
		if since.IsZero() || midnight.After(since) {
			return midnight
		}
		before := since.Add(-time.Second)
		if by, bm, bd := before.Date(); by != y || bm != m || bd != d {
			return since
		}
		t = before
	}
}
