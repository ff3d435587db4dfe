package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// summary is what many takes came to.
type summary struct {
	allowed, denied, errors int
	sources                 map[string]int
	first, last             time.Time // of the answers
	err                     error     // of the first take without a decision
	errAt                   time.Time
}

// add takes note of an answer that came at a time.
func (s *summary) add(at time.Time, d tidegate.Decision, err error) {
	if s.first.IsZero() {
		s.first = at
	}
	s.last = at
	switch {
	case err != nil:
		s.errors++
		if s.err == nil {
			s.err, s.errAt = err, at
		}
		return
	case d.Allowed:
		s.allowed++
	default:
		s.denied++
	}
	if s.sources == nil {
		s.sources = map[string]int{}
	}
	s.sources[d.Source.String()]++
}

// merge adds what another summary of the same run came to.
func (s *summary) merge(o *summary) {
	if o.takes() == 0 {
		return
	}
	if s.takes() == 0 || o.first.Before(s.first) {
		s.first = o.first
	}
	if o.last.After(s.last) {
		s.last = o.last
	}
	if o.err != nil && (s.err == nil || o.errAt.Before(s.errAt)) {
		s.err, s.errAt = o.err, o.errAt
	}
	s.allowed += o.allowed
	s.denied += o.denied
	s.errors += o.errors
	if s.sources == nil {
		s.sources = map[string]int{}
	}
	for source, n := range o.sources {
		s.sources[source] += n
	}
}

func (s *summary) takes() int { return s.allowed + s.denied + s.errors }

// elapsed is from the first to the last answer.
func (s *summary) elapsed() time.Duration { return s.last.Sub(s.first) }

// perSecond is 0 where there was no time between the first and the last answer.
func (s *summary) perSecond() float64 {
	if s.elapsed() <= 0 {
		return 0
	}
	return float64(s.takes()) / s.elapsed().Seconds()
}

// summaryResult is the summary as JSON.
type summaryResult struct {
	Takes          int            `json:"takes"`
	Allowed        int            `json:"allowed"`
	Denied         int            `json:"denied"`
	Errors         int            `json:"errors"`
	ElapsedSeconds float64        `json:"elapsed_seconds"`
	TakesPerSecond float64        `json:"takes_per_second"`
	Sources        map[string]int `json:"sources"`
}

func (s *summary) result() summaryResult {
	r := summaryResult{
		Takes:          s.takes(),
		Allowed:        s.allowed,
		Denied:         s.denied,
		Errors:         s.errors,
		ElapsedSeconds: math.Round(s.elapsed().Seconds()*1e6) / 1e6,
		TakesPerSecond: math.Round(s.perSecond()*1e3) / 1e3,
		Sources:        s.sources,
	}
	if r.Sources == nil {
		r.Sources = map[string]int{}
	}
	return r
}

// String says the summary in one line.
func (s *summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d takes in %v (%.0f/s): %d allowed, %d denied", s.takes(), shown(s.elapsed()), s.perSecond(), s.allowed, s.denied)
	if s.errors > 0 {
		fmt.Fprintf(&b, ", %d without a decision", s.errors)
	}
	separator := "; source "
	for _, source := range slices.Sorted(maps.Keys(s.sources)) {
		fmt.Fprintf(&b, "%s%s %d", separator, source, s.sources[source])
		separator = ", "
	}
	return b.String()
}
