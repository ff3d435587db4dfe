package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func newFleetSim(tb testing.TB, text string, cfg Config) *Sim {
	tb.Helper()
	cfg.Start = start
	s, err := New(parse(tb, text), &cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func outage(from, to time.Duration) []Outage { return []Outage{{start.Add(from), start.Add(to)}} }

// As long as the store is there, replicas decide as one process does, however the traffic is dealt.
func TestReplicasWithoutAnOutageDecideAsOneProcess(t *testing.T) {
	const text = `
- {name: all, limit: 200/s burst 50}
- {name: user, key: [user], limit: 20/2s sliding-log}
- {name: window, key: [user], limit: 30/3s sliding-window slices 3, shadow: true}
- {name: slow, key: [user], limit: 15/s leaky-bucket queue 4}
`
	one, many := newSim(t, text), newFleetSim(t, text, Config{Skew: []float64{60, 25, 15}})
	r := rand.New(rand.NewPCG(3, 4))
	at := start
	for i := range 20_000 {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(3*time.Millisecond))).Truncate(time.Microsecond)
		a := tidegate.AttributeMap{"user": fmt.Sprint(min(r.IntN(30), r.IntN(30)))}
		want, err := one.Decide(at, a, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := many.Decide(at, a, 1)
		if err != nil || got != want {
			t.Fatalf("request %d: %+v, %v\nwant %+v", i, got, err, want)
		}
	}
	if d := many.Dealt(); d[0] < 11_500 || d[0] > 12_500 || d[1] < 4500 || d[1] > 5500 || d[0]+d[1]+d[2] != 20_000 {
		t.Errorf("dealt %v", d)
	}
}

// event is a request that was admitted.
type event struct {
	at     time.Duration
	source tidegate.Source
}

// offer asks evenly, so many times a second.
func offer(t *testing.T, s *Sim, perSecond int, lasts time.Duration) (admitted []event, refused map[tidegate.Source]int) {
	t.Helper()
	refused = map[tidegate.Source]int{}
	gap := time.Second / time.Duration(perSecond)
	for at := time.Duration(0); at < lasts; at += gap {
		d, err := s.Decide(start.Add(at), tidegate.AttributeMap{"user": "u"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			admitted = append(admitted, event{at, d.Source})
		} else {
			refused[d.Source]++
		}
	}
	return admitted, refused
}

func between(es []event, from, to time.Duration) (n int, sources map[tidegate.Source]int) {
	sources = map[tidegate.Source]int{}
	for _, e := range es {
		if e.at >= from && e.at < to {
			n++
			sources[e.source]++
		}
	}
	return n, sources
}

// most returns how much more than the rate lets pass any interval held.
func most(es []event, perSecond float64) float64 {
	worst, least := 0.0, 0.0 // of n - rate·t, up to now, and the least before
	for i, e := range es {
		line := float64(i) - perSecond*e.at.Seconds()
		least = min(least, line)
		worst = max(worst, line+1-least)
	}
	return worst
}

// In an outage each replica keeps to its share by demand, so that the whole is the limit still; and on the return nothing is
// granted twice.
func TestOutageKeepsToTheLimit(t *testing.T) {
	const limit, burst = 300, 100
	s := newFleetSim(t, "- {name: all, limit: 300/s burst 100}\n", Config{Skew: []float64{60, 25, 15}, Outages: outage(20*time.Second, 50*time.Second), Seed: 9})
	admitted, refused := offer(t, s, 600, 90*time.Second)

	n, sources := between(admitted, 20*time.Second, 50*time.Second)
	if perSecond := float64(n) / 30; perSecond < 0.85*limit || perSecond > limit {
		t.Errorf("%.1f a second in the outage, of %d", perSecond, limit)
	}
	if sources[tidegate.SourceFallback] != n || refused[tidegate.SourceFallback] == 0 {
		t.Errorf("sources in the outage: %v, refused %v", sources, refused)
	}
	if n, sources = between(admitted, 55*time.Second, 90*time.Second); sources[tidegate.SourceStore] != n || n < 0.98*limit*35 {
		t.Errorf("%d after it: %v", n, sources)
	}
	// Each share's bucket is of whole tokens, and shares are learnt a second late: a few tokens each.
	if worst := most(admitted, limit); worst > burst+3*3 {
		t.Errorf("some interval held %.1f more than the rate, of a burst of %d", worst, burst)
	}
}

// What the fallback admitted is charged to the store on the return: of 1000 a day 950 are left, and not more.
func TestOutageIsCharged(t *testing.T) {
	s := newFleetSim(t, "- {name: daily, limit: 1000/day burst 1000}\n", Config{Replicas: 3, Outages: outage(10*time.Second, 20*time.Second)})
	for i := range 50 {
		if d, err := s.Decide(start.Add(11*time.Second+time.Duration(i)*time.Millisecond), tidegate.AttributeMap{}, 1); err != nil || !d.Allowed || d.Source != tidegate.SourceFallback {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	d, err := s.Decide(start.Add(30*time.Second), tidegate.AttributeMap{}, 0)
	if err != nil || d.Source != tidegate.SourceStore || d.Remaining < 949 || d.Remaining > 950 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestOutagePolicies(t *testing.T) {
	s := newFleetSim(t, "- {name: a, match: {user: u}, limit: 1/h, on_store_failure: allow}\n- {name: d, match: {user: v}, limit: 1/h, on_store_failure: deny}\n",
		Config{Outages: outage(time.Second, time.Minute)})
	for i := range 10 {
		at := start.Add(2*time.Second + time.Duration(i)*time.Second)
		if d, err := s.Decide(at, tidegate.AttributeMap{"user": "u"}, 1); err != nil || !d.Allowed {
			t.Errorf("allow: %+v, %v", d, err)
		}
		if d, err := s.Decide(at, tidegate.AttributeMap{"user": "v"}, 1); err != nil || d.Allowed || d.Source != tidegate.SourceFallback {
			t.Errorf("deny: %+v, %v", d, err)
		}
	}
}

// The same seed gives the same run, another another.
func TestOutagesAreTheSameTwice(t *testing.T) {
	run := func(seed uint64) string {
		s := newFleetSim(t, "- {name: all, limit: 50/s burst 20}\n- {name: user, key: [user], limit: 5/s}\n",
			Config{Skew: []float64{60, 25, 15}, Outages: append(outage(5*time.Second, 8*time.Second), outage(20*time.Second, 21*time.Second)...), Seed: seed})
		r := rand.New(rand.NewPCG(5, 6))
		var all []byte
		for at := start; at.Before(start.Add(30 * time.Second)); at = at.Add(7 * time.Millisecond) {
			d, err := s.Decide(at, tidegate.AttributeMap{"user": fmt.Sprint(r.IntN(20))}, 1)
			if err != nil {
				t.Fatal(err)
			}
			all = fmt.Appendf(all, "%v\n", d)
		}
		return string(all)
	}
	first := run(1)
	if run(1) != first {
		t.Error("the same seed gives another run")
	}
	if run(2) == first {
		t.Error("another seed gives the same run")
	}
}

// A year without a request, but for an outage in it, takes no time, and leaves all in order.
func TestIdleTimeIsPassedOver(t *testing.T) {
	const day = 24 * time.Hour
	s := newFleetSim(t, "- {name: all, limit: 100/h burst 100}\n", Config{Replicas: 4, Outages: outage(100*day, 100*day+time.Minute)})
	for _, at := range []time.Duration{0, 365 * day} {
		for i := range 90 {
			d, err := s.Decide(start.Add(at+time.Duration(i)*time.Millisecond), tidegate.AttributeMap{}, 1)
			if err != nil || !d.Allowed || d.Source != tidegate.SourceStore || d.Remaining != int64(99-i) {
				t.Fatalf("%v, request %d: %+v, %v", at, i, d, err)
			}
		}
	}
	for i := range s.fleet.replicas {
		if st := s.fleet.replicas[i].store.Status(); st.Replicas != 4 {
			t.Errorf("replica %d: %+v", i, st)
		}
	}
}

func TestFleetsThatCannotBe(t *testing.T) {
	set := parse(t, "- {name: r, limit: 1/s}\n")
	for name, cfg := range map[string]Config{
		"negative":    {Replicas: -1, Start: start},
		"many":        {Replicas: maxReplicas + 1, Start: start},
		"skew":        {Replicas: 2, Skew: []float64{1, 2, 3}, Start: start},
		"no part":     {Skew: []float64{1, 0}, Start: start},
		"no start":    {Replicas: 2},
		"backwards":   {Outages: outage(2, 1), Start: start},
		"overlapping": {Outages: append(outage(1, 5), outage(4, 6)...), Start: start},
	} {
		if _, err := New(set, &cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// BenchmarkFleet is BenchmarkDecide with three replicas.
func BenchmarkFleet(b *testing.B) {
	s := newFleetSim(b, "- {name: all, limit: 100000/s}\n- {name: user, match: {path: /api/**}, key: [user], limit: 100/s burst 20}\n", Config{Replicas: 3})
	decideMany(b, s)
}
