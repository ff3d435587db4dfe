package experiment

import (
	"math"
	"time"
)

// Result is what a run came to, as JSON. What there is nothing to tell of is null: an outage where there was none.
type Result struct {
	Scenario Scenario `json:"scenario"`
	Load     Load     `json:"load"`
	// Offered is how many requests were sent, Admitted how many of them the downstream saw.
	Offered  int `json:"offered"`
	Admitted int `json:"admitted"`
	// PeakSecond is the most that the downstream saw in any sliding second; after the start: in one that does not begin
	// within the first.
	PeakSecond           int `json:"peak_1s"`
	PeakSecondAfterStart int `json:"peak_1s_after_start"`
	// SteadyMean and SteadyStddev are of the sliding seconds after the first, those of an outage and its end left out.
	SteadyMean   float64 `json:"steady_mean"`
	SteadyStddev float64 `json:"steady_stddev"`
	// OutageMean and OutagePeakSecond are of the sliding seconds that overlap the time from the fault to the store's
	// return, RecoveryPeakSecond of those that end after it.
	OutageMean         *float64 `json:"outage_mean"`
	OutagePeakSecond   *int     `json:"outage_peak_1s"`
	RecoveryPeakSecond *int     `json:"recovery_peak_1s"`
	// Errors are requests that were neither let through nor refused.
	Errors int `json:"errors"`
	// The waits are from when a request was due to its answer.
	WaitP99Seconds float64 `json:"wait_p99_seconds"`
	WaitMaxSeconds float64 `json:"wait_max_seconds"`
}

// Result tells what the run came to.
func (t *Trace) Result() Result {
	a, end := t.arrivals, t.plan.Duration
	last := end // of the windows that may hold something
	if n := len(a); n > 0 {
		last = max(last, a[n-1])
	}
	r := Result{
		Scenario: t.plan.Scenario, Load: t.plan.Load,
		Offered: t.sent, Admitted: len(a), Errors: t.answers.errors,
		PeakSecond:           a.sliding(0, last).peak,
		PeakSecondAfterStart: a.sliding(width, last).peak,
		WaitP99Seconds:       secondsOf(min(t.answers.longest, time.Duration(t.answers.waits.ValueAtQuantile(99)))), // which is rounded up
		WaitMaxSeconds:       secondsOf(t.answers.longest),
	}
	steadyEnd := end
	if o := t.outage; o.to > 0 {
		steadyEnd = o.from
		w := a.sliding(o.from-width, o.to)
		recovery := a.sliding(o.to-width, last).peak
		r.OutageMean, r.OutagePeakSecond, r.RecoveryPeakSecond = new(thousandths(w.mean)), &w.peak, &recovery
	}
	steady := a.sliding(width, steadyEnd-width)
	r.SteadyMean, r.SteadyStddev = thousandths(steady.mean), thousandths(steady.stddev)
	return r
}

func secondsOf(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)/time.Microsecond) / 1e6
}

func thousandths(x float64) float64 { return math.Round(x*1e3) / 1e3 }
