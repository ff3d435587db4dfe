package replay

import (
	"slices"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/accesslog"
)

// A Report says what became of the requests of a replay.
type Report struct {
	// Requests is how many were decided: all that were parsed, unless the replay was interrupted.
	Requests int64 `json:"requests"`
	// Parsed and Skipped are lines. Late are those parsed that were out of order by more than the window.
	Parsed  int64 `json:"parsed"`
	Skipped int64 `json:"skipped"`
	Late    int64 `json:"late"`
	// Long are those late because the request took longer than the window. Moved were moved to their start, and Unmoved were not,
	// since they do not say how long they took.
	Long    int64 `json:"longer_than_window"`
	Moved   int64 `json:"moved"`
	Unmoved int64 `json:"unmoved"`
	// Bad are the first few lines that were skipped.
	Bad []BadLine `json:"bad_lines"`
	// Interrupted says that the replay ended before the logs did.
	Interrupted bool `json:"interrupted"`
	// From and To are when the first and the last request came.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Admitted are the requests that all rules admitted, and Refused the others: what the downstream sees and what it does not.
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
	// Delayed are those admitted that a leaky bucket had wait before they passed, and LongestDelay how long one waited at most.
	Delayed      int64   `json:"delayed"`
	LongestDelay float64 `json:"longest_delay_seconds"`
	// PeakBefore and PeakAfter are the most requests that came, and that passed, in any sliding second.
	PeakBefore int `json:"peak_1s_before"`
	PeakAfter  int `json:"peak_1s_after"`
	// Rules are in the order of the file.
	Rules []RuleReport `json:"rules"`
	// Unreplayed are the rules of permits: a log does not say how long requests held one.
	Unreplayed []string `json:"unreplayed_rules"`
	// TopRefused are the keys that were refused most.
	TopRefused []KeyCount `json:"top_refused"`
	// Series are the requests over time.
	Series Series `json:"series"`
	// Sources are how many decisions came of what: the store, or the fallback while it was away.
	Sources map[string]int64 `json:"sources"`
	// Replicas are how many requests each got; none without replicas.
	Replicas []int64 `json:"replica_requests,omitempty"`
	// Outages are in the order of time.
	Outages []OutageReport `json:"outages,omitempty"`
	// Compare is the difference to other rules; nil if there were none.
	Compare *Comparison `json:"compare,omitempty"`
	// Forgotten is how many buckets were forgotten for lack of room; above 0 the counts are those of a store that small.
	Forgotten int64 `json:"forgotten_buckets"`
}

// BadLine is a line that was skipped.
type BadLine struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// RuleReport is what one rule made of the requests that it matched. What it refused another may have refused as well; one in
// shadow counts what it would have refused.
type RuleReport struct {
	Name        string `json:"name"`
	Limit       string `json:"limit"`
	Shadow      bool   `json:"shadow"`
	Offered     int64  `json:"offered"`
	Admitted    int64  `json:"admitted"`
	Refused     int64  `json:"refused"`
	RefusedKeys int64  `json:"refused_keys"`
	Keys        int64  `json:"keys"`
	// Estimated says that there were more keys than are counted one by one, above a million: their numbers are off by a thousandth.
	Estimated bool `json:"keys_estimated"`
	// Forgotten says that there were more refused keys than are counted one by one, above 262,144: of keys that were forgotten and
	// came back, the counts and streaks are too low.
	Forgotten bool `json:"refused_keys_forgotten"`
	// LongestStreak is the most refusals of one key in a row.
	LongestStreak int64 `json:"longest_streak"`
	PeakBefore    int   `json:"peak_1s_before"`
	PeakAfter     int   `json:"peak_1s_after"`
}

// topKeys is how many refused keys a report names.
const topKeys = 20

func (t *tally) report(c accesslog.Counts, first, last time.Time) *Report {
	t.end(last)
	r := &Report{
		Requests: t.offered, Parsed: c.Parsed, Skipped: c.Skipped, Late: c.Late, Long: c.Long, Moved: c.Moved, Unmoved: c.Unmoved, Bad: []BadLine{},
		Admitted: t.offered - t.refused, Refused: t.refused, Delayed: t.delayed, LongestDelay: t.longest.Seconds(),
		PeakBefore: t.before.most, PeakAfter: t.after.most,
		Rules: []RuleReport{}, Unreplayed: append([]string{}, t.left...), TopRefused: []KeyCount{},
		Series: t.total.report(), Forgotten: t.sim.Forgotten(), From: first, To: last,
		Sources: map[string]int64{}, Replicas: t.sim.Dealt(), Outages: t.outages.report(first, last),
	}
	for source, n := range t.sources {
		r.Sources[source.String()] = n
	}
	for i := range c.Bad {
		r.Bad = append(r.Bad, BadLine(c.Bad[i]))
	}
	for _, rt := range t.rules {
		keys, exact := rt.keys.count()
		refused, _ := rt.refusedKeys.count()
		r.Rules = append(r.Rules, RuleReport{
			Name: rt.rule.Name, Limit: rt.rule.Limit.String(), Shadow: rt.rule.Shadow,
			Offered: rt.offered, Admitted: rt.offered - rt.refused, Refused: rt.refused,
			RefusedKeys: refused, Keys: keys, Estimated: !exact, Forgotten: rt.refusals.forgotten, LongestStreak: rt.refusals.streak,
			PeakBefore: rt.before.most, PeakAfter: rt.after.most,
		})
		r.TopRefused = append(r.TopRefused, rt.refusals.top(rt.rule.Name, topKeys)...)
	}
	slices.SortFunc(r.TopRefused, byCount)
	r.TopRefused = r.TopRefused[:min(topKeys, len(r.TopRefused))]
	return r
}
