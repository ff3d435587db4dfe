package experiment

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

var limit600 = tidegate.Limit{Rate: 600, Per: time.Second, Burst: 100}

// all returns when the requests of a schedule are due, and how many each replica gets.
func all(s *schedule) (at arrivals, each []int) {
	choose := s.replicas()
	each = make([]int, len(s.until))
	for i := 0; ; i++ {
		due, ok := s.due(i)
		if !ok {
			return at, each
		}
		at = append(at, due)
		each[choose()]++
	}
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		load     Load
		skew     []float64
		total    int
		seconds  []int // how many are due in each of the first
		expected []float64
	}{
		{Steady, []float64{60, 25, 15}, 24_000, []int{2000, 2000, 2000, 2000}, []float64{.6, .25, .15}},
		{Steady, []float64{1, 0, 1}, 24_000, []int{2000, 2000, 2000, 2000}, []float64{.5, 0, .5}},
		{Pulse, []float64{60, 25, 15}, 16_000, []int{2000, 2000, 0, 2000}, []float64{.6, .25, .15}},
		{Legal, []float64{60, 25, 15}, 6840, []int{570, 570, 570, 570}, []float64{.96, .02, .02}},
		{Legal, []float64{1}, 6840, []int{570, 570, 570, 570}, []float64{1}},
		{Legal, []float64{1, 1}, 6840, []int{570, 570, 570, 570}, []float64{.96, .04}},
	} {
		s := newSchedule(c.load, 2000, c.skew, limit600, 12*time.Second)
		at, each := all(s)
		if len(at) != c.total {
			t.Errorf("%s: %d requests, want %d", c.load, len(at), c.total)
		}
		for i, n := range at.bins(time.Second, 12*time.Second)[:len(c.seconds)] {
			if n != c.seconds[i] {
				t.Errorf("%s: %d requests in second %d, want %d", c.load, n, i, c.seconds[i])
			}
		}
		for i, n := range each {
			if part := float64(n) / float64(len(at)); math.Abs(part-c.expected[i]) > 0.015 {
				t.Errorf("%s: replica %d gets %.3f, want %.3f", c.load, i, part, c.expected[i])
			}
		}
	}
}

// Each scenario has the same requests at the same replicas.
func TestSchedulesAreAlike(t *testing.T) {
	a := newSchedule(Steady, 2000, []float64{60, 25, 15}, limit600, time.Minute)
	b := newSchedule(Steady, 2000, []float64{60, 25, 15}, limit600, time.Minute)
	one, other := a.replicas(), b.replicas()
	for i := range 10_000 {
		if x, y := one(), other(); x != y {
			t.Fatalf("request %d goes to %d and to %d", i, x, y)
		}
	}
}

// Requests leave when they are due, though none of them is answered.
func TestDriveWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(Steady, 1000, []float64{1}, limit600, 3*time.Second)
		start := time.Now()
		sent := drive(t.Context(), start, s, func(_ context.Context, _ int, due time.Time) {
			if late := time.Since(due); late != 0 {
				t.Errorf("sent %v late", late)
			}
			<-time.After(time.Hour)
		})
		if took := time.Since(start); sent != 3000 || took < time.Hour || took > time.Hour+3*time.Second {
			t.Errorf("%d sent, %v until all were answered", sent, took)
		}
	})
}

// An end from outside ends the sending at once.
func TestDriveInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		s := newSchedule(Steady, 1, []float64{1}, limit600, time.Minute)
		sent := drive(ctx, start, s, func(ctx context.Context, _ int, _ time.Time) { <-ctx.Done() })
		if took := time.Since(start); sent != 2 || took != 1500*time.Millisecond {
			t.Errorf("%d sent, %v until all were answered", sent, took)
		}
	})
}
