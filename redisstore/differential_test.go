package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
)

// The differential test drives random operations through the Go store and the Lua scripts at the same injected times and
// compares every field of every decision. What differs is reduced to the fewest operations that still do, and printed.
//
//	TIDEGATE_CONFORMANCE_OPS=1000000 go test -run TestDifferential -v .
//	TIDEGATE_CONFORMANCE_SEED=7 go test -run TestDifferential -v .

// base is the year 2100: keys get their expiry from the injected time, and the server's clock must not get there.
const base = 4_102_444_800_000_000

type operation struct {
	now     int64
	verb    string
	charges []tidegate.Charge
	id      string
	cost    int64
	at      uint64 // by which shards are chosen
}

func (o operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+12d %-7s", o.now-base, o.verb)
	if o.id != "" {
		fmt.Fprintf(&b, " id=%s cost=%d", o.id, o.cost)
	}
	for i := range o.charges {
		c := &o.charges[i]
		fmt.Fprintf(&b, " [%s/%s %q v%d cost=%d", c.Rule, c.Key, c.Limit, max(c.Version-base, -1), c.Cost)
		if c.MaxWait > 0 {
			fmt.Fprintf(&b, " wait=%v", c.MaxWait)
		}
		if c.ID != "" {
			fmt.Fprintf(&b, " id=%s hold=%v", c.ID, c.Hold)
		}
		if c.Shadow {
			b.WriteString(" shadow")
		}
		b.WriteString("]")
	}
	return b.String()
}

// generator makes operations that stay in a state for a while and go to its edges: small bursts, times at which
// something just comes back, limits that change under live buckets, and clocks that step.
type generator struct {
	r     *rand.Rand
	now   int64
	rules []*genRule
	held  []operation // reservations and permits that may be settled, renewed, released
	ids   int
	split bool // most limits that can have shards do
}

type genRule struct {
	name    string
	limit   *tidegate.Limit
	version int64
	old     []genVersion // what a replica that lags behind would still bring
}

type genVersion struct {
	limit   *tidegate.Limit
	version int64
}

func newGenerator(seed uint64, split bool) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0)), now: base, split: split}
	for i := range 6 {
		g.rules = append(g.rules, &genRule{name: "r" + strconv.Itoa(i), limit: g.limit(), version: g.version()})
	}
	return g
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (g *generator) limit() *tidegate.Limit {
	for {
		l := g.anyLimit()
		if g.split && g.r.IntN(8) > 0 {
			l.Shards = pick(g.r, 2, 2, 3, 5, 256)
		}
		if l.Validate() == nil {
			l = l.Normalize()
			return &l
		}
	}
}

func (g *generator) anyLimit() tidegate.Limit {
	r := g.r
	per := pick(r, time.Millisecond, 10*time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour, 24*time.Hour, 1001*time.Microsecond, 365*24*time.Hour)
	rate := pick(r, int64(1), 2, 3, 7, 10, 100, 999, 1001, 12_345, 1_000_000, int64(1)<<33, r.Int64N(1<<40)+1)
	small := min(rate, 10_000)
	switch r.IntN(14) {
	case 0, 1, 2, 3:
		return tidegate.Limit{Rate: rate, Per: per, Burst: pick(r, 0, 1, 5, 100, rate*2, r.Int64N(1<<36)+1)}
	case 4:
		return tidegate.Limit{Rate: rate, Per: per, Algorithm: tidegate.LeakyBucket, Queue: pick(r, int64(0), 1, 5, 1000)}
	case 5, 6:
		return tidegate.Limit{Rate: rate, Per: per, Algorithm: tidegate.FixedWindow}
	case 7:
		return tidegate.Limit{
			Rate: rate, Algorithm: tidegate.FixedWindow,
			Calendar: pick(r, tidegate.CalendarDay, tidegate.CalendarWeek, tidegate.CalendarMonth, tidegate.CalendarYear),
			Zone:     pick(r, "", "Europe/Vienna", "Asia/Shanghai", "America/St_Johns"),
		}
	case 8, 9:
		return tidegate.Limit{Rate: rate, Per: per, Algorithm: tidegate.SlidingWindow, Slices: pick(r, 0, 1, 2, 5, 10)}
	case 10, 11:
		return tidegate.Limit{Rate: pick(r, small, 3, 20), Per: per, Algorithm: tidegate.SlidingLog}
	case 12:
		return tidegate.Limit{Rate: pick(r, int64(1), 3, 10, 100), Algorithm: tidegate.Concurrency, TTL: pick(r, 0, time.Second, time.Hour)}
	default:
		if r.IntN(8) == 0 {
			return tidegate.Limit{Algorithm: pick(r, tidegate.None, tidegate.Unlimited)}
		}
		return tidegate.Limit{Rate: rate, Per: per, Burst: pick(r, int64(0), 3, 50), Warmup: pick(r, 8*time.Millisecond, 8*time.Second, time.Hour)}
	}
}

// version is a time of change around now, or 0.
func (g *generator) version() int64 {
	switch g.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return g.now
	case 2:
		return max(0, g.now-g.r.Int64N(100_000_000))
	}
	return g.now + g.r.Int64N(1_000_000)
}

func (g *generator) step() {
	r := g.r
	switch r.IntN(40) {
	case 0:
		g.now -= r.Int64N(2_000)
	case 1:
		g.now = max(base/2, g.now-pick(r, 1, 1_000_000, r.Int64N(120_000_000), r.Int64N(86_400_000_000)))
	case 2:
		g.now += r.Int64N(3 * 86_400_000_000)
	case 3:
		g.now += r.Int64N(40 * 86_400_000_000)
	case 4, 5, 6:
		g.now += r.Int64N(60_000_000)
	case 7, 8, 9, 10, 11, 12:
		g.now += r.Int64N(1_000_000)
	case 13, 14, 15, 16, 17, 18:
		g.now += r.Int64N(20_000)
	case 19, 20, 21:
		g.now += pick(r, int64(1), 1000, 10_000, 100_000, 1_000_000, 7_000_000)
	}
	if g.now > base*3/2 {
		g.now = base
	}
}

func (g *generator) charge() tidegate.Charge {
	r := g.r
	rule := g.rules[r.IntN(len(g.rules))]
	if r.IntN(60) == 0 {
		rule.old = append(rule.old[max(0, len(rule.old)-2):], genVersion{rule.limit, rule.version})
		if r.IntN(3) == 0 { // the same limit once more, as of another time
			rule.version = g.version()
		} else {
			rule.limit, rule.version = g.limit(), pick(r, g.version(), rule.version)
		}
	}
	v := genVersion{rule.limit, rule.version}
	if len(rule.old) > 0 && r.IntN(12) == 0 {
		v = rule.old[r.IntN(len(rule.old))]
	}
	c := tidegate.Charge{Rule: rule.name, Key: pick(r, "a", "b", "c"), Limit: v.limit, Version: v.version}
	room := v.limit.Capacity()
	switch r.IntN(10) {
	case 0:
		c.Cost = 0
	case 1:
		c.Cost = -1 - r.Int64N(max(1, min(room, 1<<40)))
	case 2:
		c.Cost = room + r.Int64N(2)
	case 3, 4:
		c.Cost = 1 + r.Int64N(max(1, min(room, 1<<50)))
	default:
		c.Cost = 1 + r.Int64N(max(1, min(room/4, 5)))
	}
	if v.limit.Algorithm == tidegate.Unlimited || v.limit.Algorithm == tidegate.None {
		c.Cost = r.Int64N(3)
	}
	c.Shadow = r.IntN(6) == 0
	if r.IntN(5) == 0 {
		c.MaxWait = pick(r, time.Millisecond, time.Second, time.Minute, 24*time.Hour, tidegate.Never)
	}
	return c
}

func (g *generator) next() operation {
	r := g.r
	g.step()
	o := operation{now: g.now, verb: "take"}
	if g.split {
		o.at = r.Uint64()
	}
	switch n := r.IntN(100); {
	case n < 14 && len(g.held) > 0:
		h := g.held[r.IntN(len(g.held))]
		o.charges, o.id, o.cost = h.charges, h.id, r.Int64N(8)
		o.verb = "settle"
		if h.charges[0].Limit.Algorithm == tidegate.Concurrency {
			o.verb = pick(r, "renew", "release")
		}
		if r.IntN(20) == 0 {
			o.cost = r.Int64N(1 << 50)
		}
		return o
	case n < 15:
		o.verb, o.charges = "reset", []tidegate.Charge{g.charge()}
		return o
	case n < 16:
		o.verb = "now"
		return o
	}
	many := 1
	if r.IntN(6) == 0 {
		many = 2 + r.IntN(3)
	}
	for range many {
		o.charges = append(o.charges, g.charge())
	}
	if r.IntN(4) == 0 || o.charges[0].Limit.Algorithm == tidegate.Concurrency {
		g.ids++
		id := "id" + strconv.Itoa(g.ids)
		hold := pick(r, 0, time.Second, time.Hour, 30*24*time.Hour)
		for i := range o.charges {
			o.charges[i].ID, o.charges[i].Hold = id, hold
		}
		g.held = append(g.held[max(0, len(g.held)-20):], operation{charges: o.charges, id: id})
	}
	return o
}

// pair is the two stores on one injected clock.
type pair struct {
	now   int64
	at    uint64 // chooses shards
	goes  tidegate.Store
	redis tidegate.Store
}

func newPair(tb testing.TB, url string, prefix string) *pair {
	tb.Helper()
	p := &pair{}
	mem := memstore.New(&memstore.Config{Now: func() time.Time { return time.UnixMicro(p.now) }, SweepEvery: -1})
	p.goes = newShardModel(mem, func() uint64 { return p.at })
	s, err := Open(url, &Config{
		Prefix: prefix, Timeout: time.Minute,
		// A caller whose clock is far off is asked again for the boundaries of calendars.
		Now: func() time.Time { return time.UnixMicro(p.now).Add(-50 * time.Hour) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.scripts, s.inject = newScripts(true), func() int64 { return p.now }
	s.chance = func() uint64 { return p.at }
	p.redis = s
	tb.Cleanup(func() {
		_ = p.goes.Close()
		_ = s.Close()
	})
	return p
}

// apply does the operation on a store and writes down all that it answers.
func (o operation) apply(s tidegate.Store) string {
	ctx := context.Background()
	var err error
	var ds []tidegate.Decision
	switch o.verb {
	case "take":
		ds, err = s.Take(ctx, o.charges, nil)
	case "settle":
		err = s.Settle(ctx, o.id, o.charges, o.cost)
	case "renew":
		err = s.Renew(ctx, o.id, o.charges)
	case "release":
		err = s.Release(ctx, o.id, o.charges)
	case "reset":
		err = s.Reset(ctx, o.charges)
	case "now":
		var now time.Time
		if now, err = s.Now(ctx); err == nil {
			return now.UTC().String()
		}
	}
	if err != nil {
		for _, known := range []error{tidegate.ErrUnknownID, tidegate.ErrUnsupported} {
			if errors.Is(err, known) {
				return known.Error()
			}
		}
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%+v", ds)
}

// same compares two answers, of which one may be of the denied cache, which says so.
func same(goes, lua string) bool {
	return goes == strings.ReplaceAll(lua, "Source:denied-cache", "Source:store")
}

// differ returns the number of the first operation for which the stores differ, and what each says; or -1.
func (p *pair) differ(ops []operation) (at int, goes, lua string) {
	for i, o := range ops {
		p.now, p.at = o.now, o.at
		if goes, lua = o.apply(p.goes), o.apply(p.redis); !same(goes, lua) || strings.HasPrefix(goes, "error") {
			return i, goes, lua
		}
	}
	return -1, "", ""
}

// reduce drops operations as long as the rest still differs.
func reduce(tb testing.TB, url string, ops []operation) []operation {
	tb.Helper()
	tries := 0
	differs := func(ops []operation) bool {
		tries++
		p := newPair(tb, url, fmt.Sprintf("reduce%d:", tries))
		defer p.goes.Close()
		defer p.redis.Close()
		at, _, _ := p.differ(ops)
		return at >= 0
	}
	for size := len(ops) / 2; size > 0 && tries < 2000; {
		dropped := false
		for i := 0; i+size <= len(ops) && tries < 2000; {
			less := append(append([]operation{}, ops[:i]...), ops[i+size:]...)
			if differs(less) {
				ops, dropped = less, true
			} else {
				i += size
			}
		}
		if !dropped || size > len(ops) {
			size /= 2
		}
	}
	return ops
}

func TestDifferential(t *testing.T) {
	differential(t, envInt(t, "TIDEGATE_CONFORMANCE_OPS", 60_000), false)
}

func differential(t *testing.T, total int, split bool) {
	t.Helper()
	srv := redistest.Start(t)
	seed := uint64(envInt(t, "TIDEGATE_CONFORMANCE_SEED", int(time.Now().UnixNano()&0xffffffff)))
	const perRun = 5_000
	t.Logf("seed %d: repeat with TIDEGATE_CONFORMANCE_SEED=%d", seed, seed)
	done := 0
	for ; done < total; seed++ {
		g := newGenerator(seed, split)
		var ops []operation
		for len(ops) < min(perRun, total-done) {
			ops = append(ops, g.next())
		}
		p := newPair(t, srv.URL(), fmt.Sprintf("s%d:", seed))
		if at, _, _ := p.differ(ops); at >= 0 {
			few := reduce(t, srv.URL(), ops[:at+1])
			p := newPair(t, srv.URL(), "last:")
			at, goes, lua := p.differ(few)
			var story strings.Builder
			for _, o := range few {
				fmt.Fprintln(&story, o)
			}
			t.Fatalf("seed %d: Go and Lua differ at operation %d of\n%s\ngo:  %s\nlua: %s", seed, at+1, story.String(), goes, lua)
		}
		_ = p.goes.Close()
		_ = p.redis.Close()
		done += len(ops)
	}
	t.Logf("%d operations, no difference", done)
}

func envInt(tb testing.TB, name string, def int) int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}
