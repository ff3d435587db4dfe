package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func parse(tb testing.TB, text string) *rules.Set {
	tb.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+text))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func newSim(tb testing.TB, text string) *Sim {
	tb.Helper()
	s, err := New(parse(tb, text), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// A log and a window are counted once more, by hand.
func TestCountsAreThoseOfBruteForce(t *testing.T) {
	const limit, window = 20, 10 * time.Second
	log := newSim(t, "- {name: log, key: [user], limit: 20/10s sliding-log}\n")
	fixed := newSim(t, "- {name: fixed, key: [user], limit: 20/10s fixed-window}\n")
	r := rand.New(rand.NewPCG(1, 2))
	passed := map[string][]time.Time{}
	counts := map[string]int{}
	at := start
	var refused [2]int
	for i := range 50_000 {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(20*time.Millisecond))).Truncate(time.Microsecond)
		user := fmt.Sprint(min(r.IntN(40), r.IntN(40)))
		attributes := tidegate.AttributeMap{"user": user}

		d, err := log.Decide(at, attributes, 1)
		if err != nil {
			t.Fatal(err)
		}
		for len(passed[user]) > 0 && at.Sub(passed[user][0]) >= window {
			passed[user] = passed[user][1:]
		}
		if want := len(passed[user]) < limit; d.Allowed != want {
			t.Fatalf("request %d: the log says %v, a count %v", i, d.Allowed, want)
		}
		if d.Allowed {
			passed[user] = append(passed[user], at)
		} else {
			refused[0]++
		}

		d, matched, err := fixed.Explain(at, attributes, 1)
		if err != nil || len(matched) != 1 || matched[0].Decision.Allowed != d.Allowed {
			t.Fatal(d, matched, err)
		}
		slot := fmt.Sprint(user, at.Unix()/10)
		if want := counts[slot] < limit; d.Allowed != want {
			t.Fatalf("request %d: the window says %v, a count %v", i, d.Allowed, want)
		}
		if d.Allowed {
			counts[slot]++
		} else {
			refused[1]++
		}
	}
	if refused[0] < 1000 || refused[1] < 1000 {
		t.Errorf("%v refused: too few to tell", refused)
	}
}

// Limits end by the virtual clock.
func TestLimitsEndInVirtualTime(t *testing.T) {
	s := newSim(t, "- {name: r, limit: 'unlimited until 2026-03-01T10:00:05Z', then: 1/h}\n")
	allowed := 0
	for i := range 10 {
		d, err := s.Decide(start.Add(time.Duration(i)*time.Second), tidegate.AttributeMap{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 6 {
		t.Errorf("%d allowed, want the five before the end and one after", allowed)
	}
}

func TestRequestsMustComeInOrder(t *testing.T) {
	s := newSim(t, "- {name: r, limit: 1/s}\n")
	if _, err := s.Decide(start, tidegate.AttributeMap{}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Decide(start.Add(-1), tidegate.AttributeMap{}, 1); !errors.Is(err, ErrOrder) {
		t.Errorf("%v, want ErrOrder", err)
	}
}

func TestSetsThatCannotBeReplayed(t *testing.T) {
	if _, err := New(nil, nil); err == nil {
		t.Error("a nil set is taken")
	}
	set := parse(t, "- {name: p, limit: 5 concurrent}\n- {name: r, limit: 1/s}\n")
	if _, err := New(set, nil); err == nil {
		t.Error("a rule of permits is taken")
	}
	s, err := New(set.Filter(func(r *rules.Rule) bool { return !IsPermits(r) }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(parse(t, "- {name: r, limit: 1/s}\n"), &Config{MaxKeys: -1}); err == nil {
		t.Error("a negative bound is taken")
	}
}

// BenchmarkDecide is of token buckets by user and for all, with a Zipf choice of users.
func BenchmarkDecide(b *testing.B) {
	s := newSim(b, "- {name: all, limit: 100000/s}\n- {name: user, match: {path: /api/**}, key: [user], limit: 100/s burst 20}\n")
	decideMany(b, s)
}

func decideMany(b *testing.B, s *Sim) {
	b.Helper()
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 100_000)
	requests := make([]tidegate.AttributeMap, 1<<14)
	for i := range requests {
		requests[i] = tidegate.AttributeMap{"path": "/api/x", "user": fmt.Sprint(z.Uint64())}
	}
	at := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at = at.Add(10 * time.Microsecond)
		if _, err := s.Decide(at, &requests[i%len(requests)], 1); err != nil {
			b.Fatal(err)
		}
	}
}
