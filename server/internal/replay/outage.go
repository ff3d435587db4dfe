package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate/sim"
)

// A Period is when the shared store is away, as --outage says it: two times of the day on which the log begins, in UTC, or two
// instants.
type Period struct {
	from, to time.Time
	ofDay    bool
}

// ParsePeriod reads 10:05-10:08, with seconds or without, or two RFC 3339 instants with a dash or a slash between them.
func ParsePeriod(text string) (Period, error) {
	for i := range len(text) {
		if text[i] != '-' && text[i] != '/' { // a date and a zone have dashes too
			continue
		}
		from, fromDay, ok := moment(text[:i])
		if !ok {
			continue
		}
		to, toDay, ok := moment(text[i+1:])
		if !ok || fromDay != toDay {
			continue
		}
		p := Period{from, to, fromDay}
		if from.Equal(to) || !fromDay && to.Before(from) {
			return p, fmt.Errorf("an outage of %s: it must end after it begins", text)
		}
		return p, nil
	}
	return Period{}, fmt.Errorf("an outage of %q: write two times of the log's first day in UTC, such as 10:05-10:08, or two instants, such as 2026-03-01T10:05:00Z/2026-03-01T10:08:00Z", text)
}

func moment(text string) (t time.Time, ofDay, ok bool) {
	for _, layout := range []string{"15:04", "15:04:05", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, layout != time.RFC3339, true
		}
	}
	return t, false, false
}

// on returns the outage in a log that begins at a moment. One that ends at an earlier time of day than it begins ends on the next day.
func (p Period) on(first time.Time) sim.Outage {
	if !p.ofDay {
		return sim.Outage{From: p.from, To: p.to}
	}
	day := first.UTC().Truncate(24 * time.Hour)
	midnight := p.from.Truncate(24 * time.Hour)
	o := sim.Outage{From: day.Add(p.from.Sub(midnight)), To: day.Add(p.to.Sub(midnight))}
	if !o.From.Before(o.To) {
		o.To = o.To.Add(24 * time.Hour)
	}
	return o
}

// outages are those of a log that begins at a moment, in the order of time.
func (c *Config) outages(first time.Time) []sim.Outage {
	var all []sim.Outage
	for _, p := range c.Outages {
		all = append(all, p.on(first))
	}
	slices.SortFunc(all, func(a, b sim.Outage) int { return a.From.Compare(b.From) })
	return all
}

// afterTime is how much of the time after an outage is reported: the return, and what it settles down to.
const afterTime = time.Minute

// An OutageReport says what the downstream saw of an outage.
type OutageReport struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// During is the outage itself, and After the minute that follows it, or what there is of it before the next or the end of the log.
	During Stretch `json:"during"`
	After  Stretch `json:"after"`
}

// A Stretch is what the downstream saw in a part of the log.
type Stretch struct {
	// Seconds is how long it is.
	Seconds float64 `json:"seconds"`
	Offered int64   `json:"offered"`
	// Admitted are those that passed in it.
	Admitted int64 `json:"admitted"`
	// Peak is the most that passed in any sliding second, and Mean how many did in one on average.
	Peak int     `json:"peak_1s_admitted"`
	Mean float64 `json:"mean_1s_admitted"`
}

// stretch collects a Stretch.
type stretch struct {
	from, to          time.Time
	offered, admitted int64
	peak              peak
}

// stretches collect the reports of outages.
type stretches struct {
	outages         []sim.Outage
	all             []stretch // during and after each in turn
	coming, passing int       // the first that has not ended for those that come, and for those that pass
}

func newStretches(outages []sim.Outage) stretches {
	s := stretches{outages: outages}
	for i, o := range outages {
		end := o.To.Add(afterTime)
		if i+1 < len(outages) && outages[i+1].From.Before(end) {
			end = outages[i+1].From
		}
		s.all = append(s.all, stretch{from: o.From, to: o.To}, stretch{from: o.To, to: end})
	}
	return s
}

// offer counts a request that comes at a moment.
func (s *stretches) offer(at time.Time) {
	if now := s.of(at, &s.coming); now != nil {
		now.offered++
	}
}

// admit counts a request that passes at a moment.
func (s *stretches) admit(at time.Time) {
	if now := s.of(at, &s.passing); now != nil {
		now.admitted++
		now.peak.add(at)
	}
}

// of returns the stretch that a moment is in; nil if it is in none.
func (s *stretches) of(at time.Time, current *int) *stretch {
	for *current < len(s.all) && !at.Before(s.all[*current].to) {
		*current++
	}
	if *current == len(s.all) || at.Before(s.all[*current].from) {
		return nil
	}
	return &s.all[*current]
}

// report reports on a log from the first request to the last.
func (s *stretches) report(first, last time.Time) []OutageReport {
	var all []OutageReport
	for i, o := range s.outages {
		all = append(all, OutageReport{
			From: o.From.UTC(), To: o.To.UTC(), During: s.all[2*i].report(first, last), After: s.all[2*i+1].report(first, last),
		})
	}
	return all
}

func (s *stretch) report(first, last time.Time) Stretch {
	from, to := s.from, s.to
	if from.Before(first) {
		from = first
	}
	if to.After(last) {
		to = last
	}
	r := Stretch{Seconds: max(0, to.Sub(from).Seconds()), Offered: s.offered, Admitted: s.admitted, Peak: s.peak.most}
	if r.Seconds > 0 {
		r.Mean = float64(s.admitted) / r.Seconds
	}
	return r
}
