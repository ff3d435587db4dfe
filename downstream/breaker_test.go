package downstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	if _, err := New(nil); err != nil {
		t.Error(err)
	}
	_, err := New(&Config{FailureRatio: 1.5, SlowRatio: math.NaN(), RefusalRatio: -1, SlowAfter: -1, Window: 1, MinimumCalls: -1, OpenTime: -1, HalfOpenCalls: -1})
	for _, want := range []string{
		"FailureRatio of 1.5", "SlowRatio of NaN", "RefusalRatio of -1", "SlowAfter -1ns", "window of 1ns", "-1 minimum", "open time of -1ns", "-1 half-open",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for _, c := range []Config{{SlowRatio: 0.5}, {SlowAfter: time.Second}} {
		if _, err := New(&c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// A story is of calls, named by letters, and of time: "+a" asks for one, which must be let begin, and "-a" for one that must not;
// "a" succeeds, "a!" fails, "a~" is slow, "a?" is abandoned; "3s" passes; "f4" is four failures and "s4" four successes of calls
// that take no time; "r2" and "p2" are takes refused and passed; "=open" is what the breaker then is, "x0.5" its factor for 0.2.
func TestStories(t *testing.T) {
	failures := Config{FailureRatio: 0.5, MinimumCalls: 4, OpenTime: time.Second, HalfOpenCalls: 2, Ramp: 10 * time.Second}
	sudden, one, slow, refusals, slowest := failures, failures, failures, failures, failures
	sudden.Ramp = -1
	one.HalfOpenCalls = 1
	slow.FailureRatio, slow.SlowRatio, slow.SlowAfter = 0, 0.75, time.Second
	refusals.FailureRatio, refusals.RefusalRatio = 0, 0.5
	slowest.SlowRatio, slowest.SlowAfter = 0.5, time.Second
	for _, c := range []struct {
		name, story string
		cfg         Config
	}{
		{"nothing", "=closed x1", failures},
		{"too few calls", "f3 =closed", failures},
		{"enough of them", "f3 =closed f1 =open x0.2 -a", failures},
		{"a ratio not reached", "s3 f2 =closed s1 f1 =closed f1 =open", failures},
		{"a success that makes them enough", "f3 s1 =open", failures},
		{"out of the window", "f3 10s f3 =closed f1 =open", failures},
		{"partly out of it", "f2 5s f1 6s f1 =closed f2 =open", failures},
		{"long after", "f3 1h f3 =closed", failures},
		{"abandoned calls are none", "+a +b +c +d a? b? c? d? f3 =closed f1 =open", failures},
		{"open for its time", "f4 999ms -a =open 1ms +a =half-open x0.2", failures},
		{"a trickle", "f4 1s +a +b -c a -c b =ramping", failures},
		{"reopened by a trial", "f4 1s +a +b a b! =open -c 999ms -c 1ms +c +d =half-open c d =ramping", failures},
		{"a trial that fails after it reopened", "f4 1s +a +b a! =open 1s +c b! =half-open c +d d =ramping", failures},
		{"abandoned trials make room", "f4 1s +a +b -c a? +c -d b c =ramping", failures},
		{"trials that nobody tells of", "f4 1s +a +b -c 999ms -c 1ms +c +d -e =half-open 1s +e +f e f =ramping", failures},
		{"trials told of late", "f4 1s +a +b 3s +c a =half-open b =ramping c! =ramping", failures},
		{"late results of the closed state", "+a +b +c +d f4 =open a! b c! 1s +e d! =half-open e +f f =ramping", failures},
		{"a late success closes nothing", "+a f4 1s +b a =half-open b! =open", one},
		{"late results of the open state's start", "+a f4 =open a 1s a =half-open", failures},
		{"late results on the ramp", "+a f4 1s +b +c b c =ramping a! 10s =closed", failures},
		{"the ramp", "f4 1s +a +b a b x0.2 5s x0.6 2500ms x0.8 2500ms x1 =closed", failures},
		{"failures on the ramp", "f4 1s +a +b a b 9s f4 f9 =open x0.2", failures},
		{"from the ramp to closed", "f4 1s +a +b a b 9900ms +c +d +e +f 100ms =closed c! d! e! f! =open", failures},
		{"no ramp", "f4 1s +a +b a b =closed x1", sudden},
		{"no ramp: trials count as before it", "f4 1s +a +b a 1s +c b =closed c! f3 =closed f1 =open", sudden},
		{"slow calls", "+a +b +c +d a~ b~ c =closed d~ =open", slow},
		{"failures where slow calls count", "f9 =closed", slow},
		{"a slow trial", "+a +b +c +d a~ b~ c~ d~ =open 1s +a a~ =open 1s +a a +b b =ramping", slow},
		{"slow failures", "+a +b +c +d a~ b~ c d! =open", slowest},
		{"refusals", "p2 r1 =closed r1 =open -a", refusals},
		{"calls do not matter to them", "f9 =closed p9 r8 =closed r1 =open", refusals},
		{"takes are their trials", "r4 =open 1s +a p1 =half-open +b p1 =ramping a! b! =ramping", refusals},
		{"a refused trial", "r4 1s +a p1 a =half-open r1 =open r9 =open", refusals},
		{"refusals where they do not trip", "r99 =closed", failures},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, clock, _ := open(t, c.cfg)
			calls := map[byte]Call{}
			for word := range strings.FieldsSeq(c.story) {
				n, _ := strconv.Atoi(word[1:])
				d, isTime := time.ParseDuration(word)
				switch {
				case isTime == nil:
					clock.advance(d)
				case word[0] == '+' || word[0] == '-':
					call, retry := b.Allow()
					if calls[word[1]] = call; call.OK() != (word[0] == '+') || (retry > 0) != (word[0] == '-') {
						t.Fatalf("%s: %t, %v", word, call.OK(), retry)
					}
				case word[0] == '=':
					if got := b.Status().State.String(); got != word[1:] {
						t.Fatalf("%s, want %s", got, word[1:])
					}
				case word[0] == 'x':
					if got := fmt.Sprintf("x%.4g", b.Factor(0.2)); got != word {
						t.Fatalf("%s, want %s", got, word)
					}
				case word[0] == 'f' && n > 0:
					fail(b, n)
				case word[0] == 's' && n > 0:
					succeed(b, n)
				case word[0] == 'p' || word[0] == 'r':
					for range n {
						b.Take(word[0] == 'p')
					}
				case len(word) == 1:
					calls[word[0]].Record(time.Millisecond, Succeeded)
				case word[1] == '!':
					calls[word[0]].Record(time.Millisecond, Failed)
				case word[1] == '~':
					calls[word[0]].Record(time.Second+1, Succeeded)
				case word[1] == '?':
					calls[word[0]].Record(0, Abandoned)
				default:
					t.Fatalf("what is %q?", word)
				}
				if b.trying < 0 || b.trying > b.cfg.HalfOpenCalls {
					t.Fatalf("%s: %d calls are tried", word, b.trying)
				}
			}
		})
	}
}

// Those who have no Call: the time that it took tells when it began.
func TestRecordWithoutCall(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 2, OpenTime: time.Second, HalfOpenCalls: 2})
	clock.advance(time.Minute)
	b.Record(time.Second, Failed)
	b.Record(50*time.Second, Failed)
	wantState(t, b, Open)
	clock.advance(time.Second)
	if ok, _ := b.Peek(); !ok {
		t.Error("no trial")
	}
	clock.advance(500 * time.Millisecond)
	b.Record(501*time.Millisecond, Failed) // began while it was open
	b.Record(time.Hour, Succeeded)
	b.Record(-5, Succeeded)
	wantState(t, b, HalfOpen)
	b.Record(500*time.Millisecond, Succeeded)
	wantState(t, b, Ramping)
}

func TestPeekLetsNothingBegin(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 2, HalfOpenCalls: 1, OpenTime: time.Second})
	if ok, retry := b.Peek(); !ok || retry != 0 {
		t.Error(ok, retry)
	}
	fail(b, 2)
	if ok, retry := b.Peek(); ok || retry != time.Second {
		t.Error(ok, retry)
	}
	clock.advance(time.Second)
	for range 3 {
		if ok, _ := b.Peek(); !ok {
			t.Error("peeks use up the trials")
		}
	}
	c, _ := b.Allow()
	if ok, retry := b.Peek(); ok || retry != time.Second {
		t.Error(ok, retry)
	}
	c.Record(0, Succeeded)
	for range 100 {
		if ok, _ := b.Peek(); !ok {
			t.Error("the first call on the ramp")
		}
	}
}

// RetryAfter is exact while open, and never 0 for a call that may not begin.
func TestRetryAfter(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 2, HalfOpenCalls: 1, OpenTime: 4 * time.Second, Ramp: 3 * time.Second})
	fail(b, 2)
	clock.advance(1500 * time.Millisecond)
	if c, retry := b.Allow(); c.OK() || retry != 2500*time.Millisecond {
		t.Error(c.OK(), retry)
	}
	clock.advance(2500 * time.Millisecond)
	trial, _ := b.Allow()
	if c, retry := b.Allow(); c.OK() || retry != time.Second {
		t.Error(c.OK(), retry)
	}
	clock.advance(3900 * time.Millisecond)
	if c, retry := b.Allow(); c.OK() || retry != 100*time.Millisecond {
		t.Error(c.OK(), retry)
	}
	trial.Record(0, Succeeded)
	for range 30 {
		if c, retry := b.Allow(); !c.OK() && (retry <= 0 || retry > time.Second) {
			t.Error(retry)
		}
		clock.advance(99 * time.Millisecond)
	}
}

// Along the ramp neither the factor nor the part of calls that may begin ever falls, and together they are half of all.
func TestRampIsMonotone(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 2, HalfOpenCalls: 1, OpenTime: time.Second, Ramp: 10 * time.Second})
	fail(b, 2)
	clock.advance(time.Second)
	succeed(b, 1)
	last, begun, before := 0.0, 0, 0
	for second := range 10 {
		now := 0
		for range 1000 {
			if f := b.Factor(0); f < last {
				t.Fatalf("the factor falls from %v to %v", last, f)
			} else {
				last = f
			}
			if c, _ := b.Allow(); c.OK() {
				now++
			}
			clock.advance(time.Millisecond)
		}
		if want := 100*second + 50; now < before || now < want-3 || now > want+3 {
			t.Errorf("in second %d, %d of 1000 began, %d in the one before", second, now, before)
		}
		begun, before = begun+now, now
	}
	if begun < 4990 || begun > 5010 {
		t.Errorf("%d of 10000", begun)
	}
	wantState(t, b, Closed)
	if b.Factor(0) != 1 {
		t.Error(b.Factor(0))
	}
}

// A call now and then is not refused on the ramp for want of others.
func TestRampOfFewCalls(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 2, HalfOpenCalls: 1, OpenTime: time.Second, Ramp: 30 * time.Second})
	fail(b, 2)
	clock.advance(time.Second)
	succeed(b, 1)
	clock.advance(time.Second)
	if c, _ := b.Allow(); !c.OK() {
		t.Error("the first call is refused")
	}
}

// A clock that goes back stops no state from ending, and one that goes forward ends it early; neither counts anything twice.
func TestClockSteps(t *testing.T) {
	b, clock, _ := open(t, Config{MinimumCalls: 4, HalfOpenCalls: 1, OpenTime: time.Second, Ramp: 10 * time.Second})
	fail(b, 3)
	clock.advance(-time.Hour)
	fail(b, 1) // within the window still
	wantState(t, b, Open)
	clock.advance(600 * time.Millisecond)
	wantState(t, b, Open)
	clock.advance(-24 * time.Hour)
	wantState(t, b, Open)
	clock.advance(400 * time.Millisecond)
	wantState(t, b, HalfOpen)
	succeed(b, 1)
	clock.advance(5 * time.Second)
	if f := b.Factor(0); f != 0.5 {
		t.Error(f)
	}
	clock.advance(-time.Minute)
	if f := b.Factor(0); f != 0.5 {
		t.Errorf("the factor went to %v as the clock went back", f)
	}
	clock.advance(5 * time.Second)
	wantState(t, b, Closed)
	fail(b, 3)
	clock.advance(100 * 365 * 24 * time.Hour)
	fail(b, 3)
	wantState(t, b, Closed)
	fail(b, 1)
	wantState(t, b, Open)
	clock.advance(1000 * time.Hour)
	wantState(t, b, HalfOpen)
}

func TestChanges(t *testing.T) {
	b, clock, changes := open(t, Config{
		FailureRatio: 0.5, SlowRatio: 0.5, SlowAfter: time.Second, MinimumCalls: 4, HalfOpenCalls: 1, OpenTime: time.Second, Ramp: 10 * time.Second,
	})
	clock.advance(time.Minute)
	succeed(b, 2)
	fail(b, 2)
	clock.advance(1500 * time.Millisecond)
	fail(b, 1)
	clock.advance(time.Second)
	c, _ := b.Allow()
	c.Record(time.Minute, Succeeded)
	clock.advance(time.Second)
	succeed(b, 1)
	clock.advance(11 * time.Second)
	b.Status()
	want := []string{
		"closed → open after 1m0s: 2 of 4, failures",
		"open → half-open after 1.5s",
		"half-open → open after 0s: 1 of 1, failures",
		"open → half-open after 1s",
		"half-open → open after 0s: 1 of 1, slow calls",
		"open → half-open after 1s",
		"half-open → ramping after 0s",
		"ramping → closed after 11s",
	}
	for i := range max(len(want), len(*changes)) {
		if i >= len(want) || i >= len(*changes) || (*changes)[i].String() != want[i] {
			t.Fatalf("%q, want %q", *changes, want)
		}
	}
}

func TestStatus(t *testing.T) {
	b, clock, _ := open(t, Config{FailureRatio: 0.9, SlowRatio: 0.9, SlowAfter: time.Second, RefusalRatio: 0.9})
	succeed(b, 3)
	fail(b, 2)
	b.Record(2*time.Second, Succeeded) // began before the breaker did
	clock.advance(5 * time.Second)
	b.Record(2*time.Second, Succeeded)
	b.Take(true)
	b.Take(false)
	if got, want := b.Status(), (Status{Closed, 5 * time.Second, 6, 2, 1, 2, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	clock.advance(6 * time.Second)
	if got, want := b.Status(), (Status{Closed, 11 * time.Second, 1, 0, 1, 2, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestOutcomes(t *testing.T) {
	for _, o := range []Outcome{Succeeded, Failed, Abandoned} {
		if got, err := ParseOutcome(o.String()); got != o || err != nil {
			t.Error(o, got, err)
		}
	}
	if _, err := ParseOutcome("slow"); err == nil {
		t.Error("slow is accepted")
	}
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, Succeeded},
		{errors.New("connection refused"), Failed},
		{context.DeadlineExceeded, Failed},
		{fmt.Errorf("query: %w", context.Canceled), Abandoned},
	} {
		if got := OutcomeOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	var none Call
	none.Record(0, Failed) // is nothing
}
