package replay

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/accesslog"
	"github.com/tidegate-go/tidegate/sim"
)

func TestParsePeriod(t *testing.T) {
	first := time.Date(2026, 3, 1, 23, 58, 7, 0, time.UTC)
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 3, day, hour, minute, second, 0, time.UTC)
	}
	for text, want := range map[string]sim.Outage{
		"10:05-10:08":      {From: at(1, 10, 5, 0), To: at(1, 10, 8, 0)},
		"10:05:30-10:08":   {From: at(1, 10, 5, 30), To: at(1, 10, 8, 0)},
		"10:05:30.5/10:08": {From: at(1, 10, 5, 30).Add(time.Second / 2), To: at(1, 10, 8, 0)},
		"23:59-00:01":      {From: at(1, 23, 59, 0), To: at(2, 0, 1, 0)},
		"2026-03-02T10:05:00Z/2026-03-02T10:08:00Z":           {From: at(2, 10, 5, 0), To: at(2, 10, 8, 0)},
		"2026-03-02T10:05:00-02:00-2026-03-02T10:08:00-02:00": {From: at(2, 12, 5, 0), To: at(2, 12, 8, 0)},
	} {
		p, err := ParsePeriod(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.on(first); !got.From.Equal(want.From) || !got.To.Equal(want.To) {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, bad := range []string{"", "-", "10:05", "10:05-", "10:05-10:05", "25:00-26:00", "10:05-2026-03-02T10:08:00Z", "2026-03-02T10:08:00Z/2026-03-02T10:05:00Z", "ten-eleven"} {
		if _, err := ParsePeriod(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParsePeriod(f *testing.F) {
	for _, text := range []string{"10:05-10:08", "2026-03-02T10:05:00Z/2026-03-02T10:08:00-02:00", "--/"} {
		f.Add(text)
	}
	first := time.Date(2026, 3, 1, 23, 58, 7, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePeriod(text); err == nil {
			if o := p.on(first); !o.From.Before(o.To) {
				t.Errorf("%q is %v", text, o)
			}
		}
	})
}

// even is a log of so many requests a second, from ten o'clock.
func even(perSecond int, lasts time.Duration) string {
	var b strings.Builder
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	gap := time.Second / time.Duration(perSecond)
	for at := time.Duration(0); at < lasts; at += gap {
		now := start.Add(at)
		fmt.Fprintf(&b, "ts=%d.%06d path=/ user=u%d\n", now.Unix(), now.Nanosecond()/1000, at/gap%7)
	}
	return b.String()
}

func periods(t *testing.T, texts ...string) (all []Period) {
	t.Helper()
	for _, text := range texts {
		p, err := ParsePeriod(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// A report on outages: what the downstream saw in them and after, counted once more from the decisions.
func TestReportOfOutages(t *testing.T) {
	type decided struct {
		at       time.Time
		admitted bool
		source   string
	}
	var all []decided
	cfg := &Config{
		Rules: parse(t, "- {name: all, limit: 50/s burst 50}\n"), Skew: []float64{60, 25, 15}, Seed: 3,
		Outages: periods(t, "10:01:30-10:02", "10:00:20-10:01"), // in any order
		Decided: func(d *Decided) {
			all = append(all, decided{d.At, d.Decision.Allowed, d.Decision.Source.String()})
		},
	}
	log := even(100, 3*time.Minute)
	report, err := Run(context.Background(), open(t, log, accesslog.Options{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]int64{}
	for _, d := range all {
		sources[d.source]++
	}
	if !reflect.DeepEqual(report.Sources, sources) || sources["fallback"] < 100*65 {
		t.Errorf("sources %v, want %v", report.Sources, sources)
	}
	count := func(from, to string) (offered, admitted int64, peak int) {
		a, _ := time.Parse(time.RFC3339, "2026-03-01T"+from+"Z")
		b, _ := time.Parse(time.RFC3339, "2026-03-01T"+to+"Z")
		var times []time.Time
		for _, d := range all {
			if !d.at.Before(a) && d.at.Before(b) {
				if offered++; d.admitted {
					admitted++
					times = append(times, d.at)
				}
			}
		}
		return offered, admitted, most(times)
	}
	if len(report.Outages) != 2 {
		t.Fatalf("%+v", report.Outages)
	}
	for i, part := range []struct {
		got      Stretch
		from, to string
		seconds  float64
	}{
		{report.Outages[0].During, "10:00:20", "10:01:00", 40},
		{report.Outages[0].After, "10:01:00", "10:01:30", 30}, // until the next
		{report.Outages[1].During, "10:01:30", "10:02:00", 30},
		{report.Outages[1].After, "10:02:00", "10:03:00", 59.99}, // until the last request
	} {
		offered, admitted, peak := count(part.from, part.to)
		got := part.got
		if got.Offered != offered || got.Admitted != admitted || got.Peak != peak || math.Abs(got.Seconds-part.seconds) > 1e-6 ||
			math.Abs(got.Mean-float64(admitted)/part.seconds) > 1e-6 {
			t.Errorf("%d: %+v, want %d of %d, peak %d, in %v s", i, got, admitted, offered, peak, part.seconds)
		}
		if got.Mean < 40 || got.Mean > 51 || got.Peak > 110 {
			t.Errorf("%d: %+v of a limit of 50 a second", i, got)
		}
	}
	if n := report.Replicas; len(n) != 3 || n[0]+n[1]+n[2] != report.Requests || n[0] < 2*n[1] {
		t.Errorf("replicas %v", n)
	}
	var text, page strings.Builder
	if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), "2026-03-01 10:00:20 to 10:01:00  during 40s    4,000 ") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if err := report.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "2026-03-01 10:00:20 to 10:01:00</td><td class=\"text\">during 40s") {
		t.Errorf("%v\n%s", err, page.String()[max(0, page.Len()-4000):])
	}
	cfg.Decided = nil
	again, err := Run(context.Background(), open(t, log, accesslog.Options{}), cfg)
	if err != nil || !reflect.DeepEqual(report, again) {
		t.Errorf("the same replay twice: %v\n%+v\n%+v", err, report, again)
	}
}

// Outages at times that the log does not have, or of a log without requests, are no error.
func TestOutagesBesideTheLog(t *testing.T) {
	cfg := &Config{Rules: parse(t, "- {name: all, limit: 50/s}\n"), Replicas: 2, Outages: periods(t, "09:00-09:30", "11:00-11:01", "09:59:59-10:00:01")}
	report, err := Run(context.Background(), open(t, even(10, 5*time.Second), accesslog.Options{}), cfg)
	if err != nil || len(report.Outages) != 3 || report.Outages[0].During != (Stretch{}) || report.Outages[2].After != (Stretch{}) ||
		report.Outages[1].During.Offered != 10 || report.Outages[1].During.Seconds != 1 {
		t.Errorf("%v, %+v", err, report)
	}
	report, err = Run(context.Background(), open(t, "junk\n", accesslog.Options{Format: "logfmt"}), cfg)
	if err != nil || report.Requests != 0 || report.Skipped != 1 {
		t.Errorf("%v, %+v", err, report)
	}
	cfg.Outages = periods(t, "10:00-10:02", "10:01-10:03")
	if _, err = Run(context.Background(), open(t, even(10, time.Second), accesslog.Options{}), cfg); err == nil || strings.HasPrefix(err.Error(), "sim") {
		t.Errorf("overlapping: %v", err)
	}
}
