package algo

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// longWay decides as a store does for limits of every kind.
func longWay(p *Params, s State, cost, now int64) (after State, v Verdict, remaining, reset int64) {
	keep := p.Load(&s, now, Window{})
	v = p.Take(&s, Request{Cost: cost}, now, Window{})
	remaining, reset = p.Describe(&s, now, Window{})
	if keep && !v.OK {
		panic("a bucket whose time is not ahead of the clock is not kept for a refusal")
	}
	return s, v, remaining, reset
}

// randomBucket returns a token or leaky bucket of any size that is permitted.
func randomBucket(r *rand.Rand) *Params {
	for {
		l := tidegate.Limit{Rate: 1 + r.Int64N(1<<r.IntN(40)), Per: time.Duration(1+r.Int64N(1<<r.IntN(40))) * time.Millisecond}
		if r.IntN(2) == 0 {
			l.Per = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}[r.IntN(5)]
		}
		l.Burst = 1 + r.Int64N(1<<r.IntN(40))
		if r.IntN(3) == 0 {
			l.Algorithm, l.Burst, l.Queue = tidegate.LeakyBucket, 0, r.Int64N(1<<r.IntN(30))
		}
		if p, err := Compile(l); err == nil {
			return p
		}
	}
}

// step returns a time to the next take: none, a tick or less, some tokens' worth, as long as a full bucket takes or longer,
// or one that goes back.
func step(r *rand.Rand, p *Params) int64 {
	fill := ceilDiv(p.size+p.debt, p.gain) * p.tick
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return r.Int64N(2 * p.tick)
	case 2:
		return 1 + r.Int64N(fill)
	case 3:
		return fill + r.Int64N(3) - 1
	case 4:
		return r.Int64N(1 << r.IntN(45))
	case 5:
		return -r.Int64N(1 << r.IntN(40))
	}
	return r.Int64N(3*ceilDiv(p.cost, p.gain)*p.tick + 1)
}

// The short way gives what the long way does, to the last bit, or leaves the decision to it.
func TestPlain(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	short, long, refused, delayed := 0, 0, 0, 0
	for range 20_000 {
		p := randomBucket(r)
		now := time.Date(1971+r.IntN(180), 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		var s State
		for range 50 {
			now = max(0, now+step(r, p))
			cost := 1 + r.Int64N(1<<r.IntN(40))
			switch r.IntN(5) {
			case 0:
				cost = 1
			case 1:
				cost = p.Capacity + r.Int64N(3) - 1
			case 2:
				cost = r.Int64N(4) - 2
			}
			if !s.used {
				s = State{} // as a store forgets it
			}
			before := s
			got, c, ok := p.ChargePlain(Plain{Used: s.a, Tick: s.b}, cost, now)
			ahead := s.used && s.b > now/p.tick
			if may := cost >= 1 && cost <= p.Capacity && !ahead && now < 1<<53; ok != may {
				t.Fatalf("%s: cost %d of %+v at %d: decided %v, want %v", p.Spec, cost, before, now, ok, may)
			}
			if !ok {
				long++
				if got != (Plain{Used: before.a, Tick: before.b}) {
					t.Fatalf("%s: the state is touched: %+v", p.Spec, got)
				}
				loaded := s
				p.Load(&loaded, now, Window{})
				if v := p.Take(&loaded, Request{Cost: cost, MaxWait: r.Int64N(1 << r.IntN(40))}, now, Window{}); v.OK && cost != 0 || ahead {
					s = loaded
				}
				continue
			}
			short++
			outcome, waits := p.TellPlain(c)
			after, v, remaining, reset := longWay(p, s, cost, now)
			want := Plain{before.a, before.b}
			if v.OK {
				want = Plain{after.a, after.b}
				s = after
			} else {
				refused++
			}
			if v.Delay > 0 {
				delayed++
			}
			micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
			if got != want || v.OK && !after.used ||
				outcome != (tidegate.Outcome{Allowed: v.OK, Limit: p.Capacity, Remaining: remaining}) ||
				waits != (tidegate.Waits{RetryAfter: micros(v.Retry), ResetAfter: micros(reset), Delay: micros(v.Delay)}) {
				t.Fatalf("%s: cost %d of %+v at %d:\n got %+v %+v %+v\nwant %+v %+v %d %d",
					p.Spec, cost, before, now, got, outcome, waits, want, v, remaining, reset)
			}
			if r.IntN(20) == 0 { // a settled excess: debt, as deep as it goes
				p.Settle(&s, 0, r.Int64N(1<<r.IntN(53)), 0, p.Capacity, true, Window{})
			}
		}
	}
	t.Logf("%d the short way (%d refused, %d delayed), %d the long way", short, refused, delayed, long)
	if short < 100_000 || long < 100_000 || refused < 1000 || delayed < 100 {
		t.Error("too few of a kind to tell")
	}
}

// Other kinds are decided the long way.
func TestPlainIsForPlainBuckets(t *testing.T) {
	for _, text := range []string{
		"20/min fixed-window", "20/day tz UTC", "20/min sliding-window", "20/min sliding-log", "20 concurrent", "100/s warmup 16s", "none", "unlimited",
	} {
		l, err := tidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := p.ChargePlain(Plain{}, 1, 1); ok {
			t.Errorf("%s is decided as a plain bucket", text)
		}
	}
	p := randomBucket(rand.New(rand.NewPCG(1, 1)))
	for _, now := range []int64{-1, 1 << 53} {
		if _, _, ok := p.ChargePlain(Plain{}, 1, now); ok {
			t.Errorf("%d is a time that reciprocals are not made for", now)
		}
	}
}
