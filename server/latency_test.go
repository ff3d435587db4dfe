package server

import (
	"testing"
	"time"
)

func TestLatencyOfTheLastMinute(t *testing.T) {
	var l latency
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if q := l.quantiles(now, .5); q[0] != nil {
		t.Errorf("without a call the median is %v", *q[0])
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got < want*.9 || *got > want*1.1 {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for range 98 {
		l.saw(now, time.Millisecond)
	}
	l.saw(now, time.Second)
	l.saw(now, time.Second)
	q := l.quantiles(now.Add(50*time.Second), .5, .99)
	near("median", q[0], .001)
	near("p99", q[1], 1)

	// What is a minute old does not count, also in the slot whose time has come again.
	if q := l.quantiles(now.Add(time.Minute), .5); q[0] != nil {
		t.Errorf("a minute later the median is %v", *q[0])
	}
	l.saw(now.Add(time.Minute), 10*time.Millisecond)
	near("a minute later", l.quantiles(now.Add(time.Minute), .5)[0], .01)
	for _, took := range []time.Duration{0, -time.Second, time.Nanosecond, time.Hour} { // none is out of the table
		l.saw(now, took)
	}
}
