package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
	day = 24 * time.Hour
)

// start is when virtual time begins: a Monday, and the beginning of a window of every length that divides a day.
var start = time.Date(2100, time.January, 4, 0, 0, 0, 0, time.UTC)

// reporter is the part of [testing.T] that cases use, so that the suite can be tried on stores that it must fail.
type reporter interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// trial is a case under way: a store of its own, and the clock that it decides by.
type trial struct {
	reporter
	*clock
	h     *Harness
	t     *testing.T
	rule  string
	store tidegate.Store
	rand  *rand.Rand

	names  int // of buckets and IDs so far
	limits map[string]*tidegate.Limit
}

func newTrial(t *testing.T, r reporter, h *Harness, c *testCase) *trial {
	t.Helper()
	x := &trial{reporter: r, clock: &clock{}, h: h, t: t, rule: c.rule, rand: h.random(c.name), limits: map[string]*tidegate.Limit{}}
	x.set(start)
	x.store = h.New(t, x.now)
	t.Cleanup(func() { _ = x.store.Close() })
	return x
}

// clock stands still unless it is moved.
type clock struct{ us atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.us.Store(t.UnixMicro()) }
func (c *clock) advance(d time.Duration) { c.us.Add(int64(d / us)) }
func (c *clock) at(d time.Duration)      { c.set(start.Add(d)) }
func (c *clock) elapsed() time.Duration  { return c.now().Sub(start) }

// Errorf reports a failure, with the promise that was broken.
func (x *trial) Errorf(format string, args ...any) {
	x.Helper()
	x.reporter.Errorf("%s%s", fmt.Sprintf(format, args...), x.context())
}

// Fatalf reports a failure and ends the case.
func (x *trial) Fatalf(format string, args ...any) {
	x.Helper()
	x.reporter.Fatalf("%s%s", fmt.Sprintf(format, args...), x.context())
}

func (x *trial) context() string {
	return fmt.Sprintf("\n\tat start+%v, seed %d\n\tbroken: %s", x.elapsed(), x.h.Seed, x.rule)
}

// limit reads a limit; the same text is the same pointer.
func (x *trial) limit(text string) *tidegate.Limit {
	x.Helper()
	if l, ok := x.limits[text]; ok {
		return l
	}
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		x.Fatalf("the suite is wrong: %v", err)
	}
	x.limits[text] = &l
	return &l
}

// name returns a name that the case has not used.
func (x *trial) name(prefix string) string {
	x.names++
	return prefix + strconv.Itoa(x.names)
}

// version returns the present as the version of a limit.
func (x *trial) version() int64 { return x.now().UnixMicro() }

// takeAll takes the charges and checks what holds for every decision.
func (x *trial) takeAll(charges ...tidegate.Charge) []tidegate.Decision {
	x.Helper()
	ds, err := x.store.Take(x.Context(), charges, nil)
	if err != nil {
		x.Fatalf("take %s: %v", describe(charges), err)
	}
	if len(ds) != len(charges) {
		x.Fatalf("take %s: %d decisions for %d charges", describe(charges), len(ds), len(charges))
	}
	for i := range charges {
		if err := sound(&charges[i], &ds[i]); err != "" {
			x.Errorf("take %s: decision %d is %s: %s", describe(charges), i, say(ds[i]), err)
		}
	}
	return ds
}

// sound returns what is wrong with a decision whatever the state of its bucket, or nothing.
func sound(c *tidegate.Charge, d *tidegate.Decision) string {
	switch {
	case d.Rule != c.Rule:
		return fmt.Sprintf("its rule is %q instead of %q", d.Rule, c.Rule)
	case d.Remaining < 0 || d.Remaining > d.Limit:
		return "Remaining is not within 0 and Limit"
	case d.Allowed && d.RetryAfter != 0:
		return "RetryAfter of an allowed take is not 0"
	case !d.Allowed && d.RetryAfter <= 0:
		return "RetryAfter of a refused take is not above 0"
	case !d.Allowed && d.Delay != 0:
		return "Delay of a refused take is not 0"
	case d.Delay < 0 || c.MaxWait > 0 && d.Delay > c.MaxWait:
		return "Delay is negative or longer than MaxWait"
	case d.ResetAfter < 0:
		return "ResetAfter is negative"
	}
	return ""
}

// bucket is a bucket that a case charges.
type bucket struct {
	x      *trial
	charge tidegate.Charge
}

// bucket returns one that nobody has charged.
func (x *trial) bucket(limit string) *bucket {
	x.Helper()
	return x.bucketOf(x.limit(limit))
}

func (x *trial) bucketOf(l *tidegate.Limit) *bucket {
	n := x.name("")
	return &bucket{x, tidegate.Charge{Rule: "rule" + n, Key: "key" + n, Limit: l}}
}

// asks returns the charge of a cost. Every charge of permits has an ID of its own.
func (b *bucket) asks(cost int64) tidegate.Charge {
	c := b.charge
	c.Cost = cost
	if c.Limit.Algorithm == tidegate.Concurrency && cost > 0 {
		c.ID = b.x.name("permit")
	}
	return c
}

// inShadow returns the charge of a cost in shadow.
func (b *bucket) inShadow(cost int64) tidegate.Charge {
	c := b.asks(cost)
	c.Shadow = true
	return c
}

// take charges the cost alone, and checks what holds for the decision of a single charge.
func (b *bucket) take(cost int64) tidegate.Decision {
	b.x.Helper()
	d := b.x.takeAll(b.asks(cost))[0]
	switch {
	case cost > 0 && !d.Allowed && d.Remaining >= cost:
		b.x.Errorf("%s: a cost of %d was refused: %s: Remaining is the largest cost that would pass", b, cost, say(d))
	case cost == 0 && d.Allowed != (d.Remaining > 0):
		b.x.Errorf("%s: a peek answers %s: it must be allowed when something remains and only then", b, say(d))
	}
	return d
}

// wants takes and compares the whole decision with its text.
func (b *bucket) wants(cost int64, want string) {
	b.x.Helper()
	if got := say(b.take(cost)); got != want {
		b.x.Errorf("%s: a cost of %d: got %q, want %q", b, cost, got, want)
	}
}

// drain takes what remains and makes sure that nothing does.
func (b *bucket) drain() {
	b.x.Helper()
	if n := b.take(0).Remaining; n > 0 {
		if d := b.take(n); !d.Allowed {
			b.x.Errorf("%s: what remains was refused: %s", b, say(d))
		}
	}
	if d := b.take(0); d.Remaining != 0 {
		b.x.Errorf("%s: after all that remained was taken: %s", b, say(d))
	}
}

// admit takes cost 1 until it is refused, at most so often, and returns how often it was allowed.
func (b *bucket) admit(most int) int64 {
	b.x.Helper()
	for n := range most {
		if !b.take(1).Allowed {
			return int64(n)
		}
	}
	return int64(most)
}

// changed returns the bucket as a charge with another limit of a version names it.
func (b *bucket) changed(limit string, version int64) *bucket {
	b.x.Helper()
	c := *b
	c.charge.Limit, c.charge.Version = b.x.limit(limit), version
	return &c
}

// String names the bucket by its limit.
func (b *bucket) String() string { return strconv.Quote(b.charge.Limit.String()) }

// say writes a decision: "yes 19/20 reset 100ms", "no 0/20 retry 100ms reset 2s", "yes unlimited".
func say(d tidegate.Decision) string {
	var s strings.Builder
	s.WriteString("no")
	if d.Allowed {
		s.Reset()
		s.WriteString("yes")
	}
	if d.Limit == tidegate.NoLimit && d.Remaining == tidegate.NoLimit && d.Source == tidegate.SourceUnlimited {
		s.WriteString(" unlimited")
	} else {
		fmt.Fprintf(&s, " %d/%d", d.Remaining, d.Limit)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"delay", d.Delay}, {"retry", d.RetryAfter}, {"reset", d.ResetAfter}} {
		switch t.d {
		case 0:
		case tidegate.Never:
			s.WriteString(" " + t.name + " never")
		default:
			s.WriteString(" " + t.name + " " + t.d.String())
		}
	}
	return s.String()
}

// describe writes the charges of a take.
func describe(charges []tidegate.Charge) string {
	parts := make([]string, len(charges))
	for i := range charges {
		c := &charges[i]
		parts[i] = fmt.Sprintf("%d of %q", c.Cost, c.Limit.String())
		if c.Shadow {
			parts[i] += " in shadow"
		}
		if c.MaxWait > 0 {
			parts[i] += fmt.Sprintf(" within %v", c.MaxWait)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
