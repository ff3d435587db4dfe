package replay

import "time"

// maxBins is how many steps of time a series has at most: when it needs more, each two become one.
const maxBins = 1200

// Series counts requests over time, step by step: those offered when they come, and those admitted when they pass, which may be
// after the log's end.
type Series struct {
	Start    time.Time `json:"start"`
	Step     float64   `json:"step_seconds"`
	Offered  []int64   `json:"offered"`
	Admitted []int64   `json:"admitted"`
}

// series collects a Series.
type series struct {
	start             time.Time
	step              time.Duration
	offered, admitted []int64
}

func (s *series) offer(at time.Time) { s.offered[s.bin(at)]++ }

// admit counts a request that was offered before.
func (s *series) admit(at time.Time) { s.admitted[s.bin(at)]++ }

// bin returns the step that a moment is in.
func (s *series) bin(at time.Time) int {
	if s.offered == nil {
		s.step = time.Second
		s.start = at.Truncate(s.step)
	}
	bin := int(at.Sub(s.start) / s.step)
	for bin >= maxBins {
		s.offered, s.admitted = halved(s.offered), halved(s.admitted)
		s.step *= 2
		bin = int(at.Sub(s.start) / s.step)
	}
	for len(s.offered) <= bin {
		s.offered, s.admitted = append(s.offered, 0), append(s.admitted, 0)
	}
	return bin
}

func halved(counts []int64) []int64 {
	half := make([]int64, 0, maxBins)
	for i := 0; i < len(counts); i += 2 {
		n := counts[i]
		if i+1 < len(counts) {
			n += counts[i+1]
		}
		half = append(half, n)
	}
	return half
}

func (s *series) report() Series {
	return Series{Start: s.start, Step: s.step.Seconds(), Offered: s.offered, Admitted: s.admitted}
}
