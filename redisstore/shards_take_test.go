package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// lead makes the next takes on limits of so many shards go to the first, and where that refuses to the other one.
func lead(s *Store, shards, first, other int) {
	at := drawOf(idOf(shards, first, other))
	s.chance = func() uint64 { return at }
}

// idOf returns an ID that leads to the two shards.
func idOf(shards, first, other int) string {
	l := &compiled{shards: make([]*compiled, shards)}
	for i := range 100_000 {
		id := "id" + strconv.Itoa(i)
		if at := drawOf(id); (choice{at: at}).shard(l) == first && (choice{at: at, other: true}).shard(l) == other {
			return id
		}
	}
	panic("no ID leads to these shards")
}

// onShards returns what the server says of each shard of the charge's limit.
func onShards(t *testing.T, s *Store, c tidegate.Charge) []tidegate.Decision {
	t.Helper()
	c.Cost, c.ID, c.MaxWait, c.Shadow = 0, "", 0, false
	l, err := s.limits.of(&c)
	if err != nil {
		t.Fatal(err)
	}
	ds := make([]tidegate.Decision, len(l.shards))
	for i, shard := range l.shards {
		it := item{charge: &c, limit: shard, tag: shardTag(s.tag(&c), i)}
		it.key = s.bucketKey(&c, it.tag, i)
		if err := s.takeOnce(context.Background(), []item{it}, ds[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	return ds
}

// inUse returns what is in use in all shards together.
func inUse(t *testing.T, s *Store, c tidegate.Charge) (sum int64) {
	t.Helper()
	for _, d := range onShards(t, s, c) {
		sum += used(&d)
	}
	return sum
}

// left returns what remains in each shard.
func left(t *testing.T, s *Store, c tidegate.Charge) []int64 {
	t.Helper()
	var all []int64
	for _, d := range onShards(t, s, c) {
		all = append(all, d.Remaining)
	}
	return all
}

func wantLeft(t *testing.T, s *Store, c tidegate.Charge, want ...int64) {
	t.Helper()
	if got := left(t, s, c); !slices.Equal(got, want) {
		t.Fatalf("in the shards of %q remain %v, want %v", c.Rule, got, want)
	}
}

// A refused shard tries one other, and only one; when both are known to refuse, the server is not asked.
func TestRefusedShardTriesOneOther(t *testing.T) {
	srv := redistest.Start(t)
	for _, limit := range []string{"4/h shards 4", "4/h fixed-window shards 4"} {
		s, now, sent := deniedStore(t, srv.URL())
		c := newCharge(t, "r", limit, limit, 1)
		take := func(commands int64, allowed bool, remaining int64) tidegate.Decision {
			t.Helper()
			before := sent.n.Load()
			d := mustTake(t, s, c)[0]
			if n := sent.n.Load() - before; n != commands || d.Allowed != allowed || d.Remaining != remaining || d.Limit != 1 {
				t.Fatalf("%s: %d commands and %+v, want %d, allowed %v, %d to remain of 1", limit, n, d, commands, allowed, remaining)
			}
			return d
		}
		lead(s, 4, 2, 1)
		mustTake(t, s, c) // loads the script
		*now += 1000
		take(2, true, 0)
		wantLeft(t, s, c, 1, 0, 0, 1)
		take(1, false, 0) // shard 2 is known to refuse
		d := take(0, false, 0)
		if d.Source != tidegate.SourceDeniedCache {
			t.Errorf("%s: %+v: want it refused by the denied cache", limit, d)
		}
		lead(s, 4, 2, 3)
		take(1, true, 0)
		lead(s, 4, 0, 3)
		take(1, true, 0)
		lead(s, 4, 0, 2)
		take(1, false, 0)
	}
}

// When both refuse, the decision is that of the shorter wait.
func TestShorterWaitOfTwoShards(t *testing.T) {
	srv := redistest.Start(t)
	for _, swap := range []bool{false, true} {
		s, now, _ := deniedStore(t, srv.URL())
		c := newCharge(t, "r", strconv.FormatBool(swap), "2/h shards 2", 1)
		lead(s, 2, 0, 1)
		mustTake(t, s, c)
		*now += int64(30 * time.Minute / time.Microsecond)
		lead(s, 2, 1, 0)
		mustTake(t, s, c)
		if swap {
			lead(s, 2, 0, 1)
		}
		for range 2 { // by the server, and by what is known
			if d := mustTake(t, s, c)[0]; d.Allowed || d.RetryAfter != 30*time.Minute {
				t.Errorf("%+v: want to be told to wait for 30m", d)
			}
		}
	}
}

// A cost that only some shards can pass goes to these, and one that none can is refused at once.
func TestCostsAboveSomeShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, sent := deniedStore(t, srv.URL())
	c := newCharge(t, "r", "k", "10/h shards 4", 3) // 3, 3, 2 and 2
	for range 2 {
		if d := mustTake(t, s, c)[0]; !d.Allowed || d.Limit != 3 || d.Remaining != 0 {
			t.Fatalf("%+v: want it to pass a shard of 3", d)
		}
	}
	wantLeft(t, s, c, 0, 0, 2, 2)
	if d := mustTake(t, s, c)[0]; d.Allowed || d.RetryAfter != time.Hour/10*4*3 {
		t.Fatalf("%+v: want it to wait for a shard of 3", d)
	}
	c.Cost = 4
	before := sent.n.Load()
	if d := mustTake(t, s, c)[0]; d.Allowed || d.RetryAfter != tidegate.Never || sent.n.Load() != before+1 {
		t.Errorf("%+v by %d commands: want it never to pass, by one", d, sent.n.Load()-before)
	}
	c.Cost = 2
	for range 20 { // chance leads to a shard of 2 in the end
		mustTake(t, s, c)
	}
	wantLeft(t, s, c, 0, 0, 0, 0)
	one := newCharge(t, "one", "k", "9/h shards 4", 3)
	mustTake(t, s, one)
	before = sent.n.Load()
	if d := mustTake(t, s, one)[0]; d.Allowed || d.RetryAfter != time.Hour/9*4*3 || sent.n.Load() != before+1 {
		t.Errorf("%+v by %d commands: want it refused by the only shard that could pass it", d, sent.n.Load()-before)
	}
}

// A take of several charges is all or nothing on its shards, and is tried again only where all that refuse it can move.
func TestSeveralShardedCharges(t *testing.T) {
	srv := redistest.Start(t)
	s, _, sent := deniedStore(t, srv.URL())
	a := newCharge(t, "a", "k", "4/h shards 4", 1)
	b := newCharge(t, "b", "k", "8/h fixed-window shards 4", 1)
	plain := newCharge(t, "plain", "k", "3/h", 1)
	lead(s, 4, 1, 2)
	mustTake(t, s, a)
	ds := mustTake(t, s, a, plain, b)
	for i, want := range []int64{0, 2, 1} {
		if !ds[i].Allowed || ds[i].Remaining != want {
			t.Errorf("charge %d: %+v: want it allowed and %d to remain", i, ds[i], want)
		}
	}
	wantLeft(t, s, a, 1, 0, 0, 1)
	wantLeft(t, s, b, 2, 2, 1, 2) // moved along
	ds = mustTake(t, s, plain, a)
	if !ds[0].Allowed || ds[1].Allowed || remaining(t, s, plain) != 2 {
		t.Errorf("%+v: want it refused by a alone, and nothing charged", ds)
	}

	lead(s, 4, 0, 3)
	mustTake(t, s, plain)
	mustTake(t, s, plain)
	before := sent.n.Load()
	ds = mustTake(t, s, a, plain)
	if !ds[0].Allowed || ds[1].Allowed || sent.n.Load() != before+1 {
		t.Errorf("%+v by %d commands: want it refused by plain, at once", ds, sent.n.Load()-before)
	}
	wantLeft(t, s, a, 1, 0, 0, 1)

	a.Shadow = true // finds no room, and is only told so
	lead(s, 4, 1, 0)
	before = sent.n.Load()
	ds = mustTake(t, s, a, b)
	if ds[0].Allowed || !ds[1].Allowed || sent.n.Load() != before+1 {
		t.Errorf("%+v by %d commands: want the charge in shadow refused, the other allowed", ds, sent.n.Load()-before)
	}
	wantLeft(t, s, a, 1, 0, 0, 1)
	wantLeft(t, s, b, 2, 1, 1, 2)
}

// A peek answers for a shard, or for the other one if that has room, and writes nothing.
func TestPeekOnShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	c := newCharge(t, "r", "k", "8/h shards 4", 2)
	lead(s, 4, 0, 1)
	mustTake(t, s, c)
	c.Cost = 0
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Remaining != 2 || d.Limit != 2 {
		t.Errorf("%+v: want the answer of the other shard", d)
	}
	lead(s, 4, 1, 0)
	c.Cost = 2
	mustTake(t, s, c)
	c.Cost = 0
	if d := mustTake(t, s, c)[0]; d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v: want no", d)
	}
	wantLeft(t, s, c, 0, 0, 2, 2)
	if n := len(storedKeys(t, srv, "*}r/k*")); n != 2 {
		t.Errorf("%d buckets, want those that were charged", n)
	}
}

// A refund goes to the one of two shards that has more in use, and never above capacity.
func TestRefundOnShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	c := newCharge(t, "r", "k", "16/h shards 4", 3)
	refund := func(n int64) {
		t.Helper()
		r := c
		r.Cost = -n
		if d := mustTake(t, s, r)[0]; !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	lead(s, 4, 2, 0)
	mustTake(t, s, c)
	lead(s, 4, 0, 2)
	refund(1)
	wantLeft(t, s, c, 4, 4, 2, 4)
	lead(s, 4, 2, 0)
	refund(9)
	wantLeft(t, s, c, 4, 4, 4, 4)
	mustTake(t, s, c)
	lead(s, 4, 1, 3)
	refund(3) // is lost: neither has anything in use
	wantLeft(t, s, c, 4, 4, 1, 4)

	// A known refusal of the shard is forgotten.
	c.Cost = 2
	lead(s, 4, 2, 1)
	mustTake(t, s, c) // refused by shard 2
	refund(3)
	mustTake(t, s, c)
	wantLeft(t, s, c, 4, 2, 2, 4)
}

// A reservation is settled on the shard that it was made on, be it the first or the other one, or one of the larger ones.
func TestSettleOnShards(t *testing.T) {
	srv := redistest.Start(t)
	ctx := context.Background()
	for _, limit := range []string{"42/h shards 4", "42/h fixed-window shards 4", "42/h sliding-window shards 4"} { // 11, 11, 10, 10
		s, _, _ := deniedStore(t, srv.URL())
		elsewhere, _, _ := deniedStore(t, srv.URL())
		c := newCharge(t, "r", limit, limit, 6)
		named := c
		named.Cost = 0
		settle := func(id string, cost int64, want error) {
			t.Helper()
			if err := elsewhere.Settle(ctx, id, []tidegate.Charge{named}, cost); !errors.Is(err, want) {
				t.Fatalf("%s: settling %q: %v, want %v", limit, id, err, want)
			}
		}
		reserve := func(id string, cost int64) {
			t.Helper()
			r := c
			r.ID, r.Hold, r.Cost = id, time.Hour, cost
			if d := mustTake(t, s, r)[0]; !d.Allowed {
				t.Fatalf("%s: %+v: want it reserved", limit, d)
			}
		}
		id, moved := idOf(4, 3, 1), idOf(4, 3, 2)
		settle(id, 0, tidegate.ErrUnknownID)
		reserve(id, 6)
		wantLeft(t, s, c, 11, 11, 10, 4)
		reserve(moved, 6) // finds no room in shard 3
		wantLeft(t, s, c, 11, 11, 4, 4)
		settle(id, 2, nil)
		settle(moved, 7, nil)
		wantLeft(t, s, c, 11, 11, 3, 8)
		settle(id, 2, tidegate.ErrUnknownID)
		settle(moved, 2, tidegate.ErrUnknownID)
		wantLeft(t, s, c, 11, 11, 3, 8)
		big := ""
		for i := 0; big == ""; i++ { // one whose shards are others among all than among the larger ones
			at := drawOf("big" + strconv.Itoa(i))
			l := shardsOf(t, limit)
			if (choice{at: at, large: true}).shard(l) == 1 && (choice{at: at}).shard(l) == 3 && (choice{at: at, other: true}).shard(l) == 2 {
				big = "big" + strconv.Itoa(i)
			}
		}
		reserve(big, 11)
		wantLeft(t, s, c, 11, 0, 3, 8)
		settle(big, 0, nil)
		wantLeft(t, s, c, 11, 11, 3, 8)
		settle(big, 0, tidegate.ErrUnknownID)
	}
}

// A wait may be longer on one shard than on another: the first that can takes it.
func TestWaitOnShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	c := newCharge(t, "r", "k", "2/h shards 2", 1)
	lead(s, 2, 0, 1)
	mustTake(t, s, c)
	c.MaxWait = 2 * time.Hour
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Delay != time.Hour {
		t.Errorf("%+v: want a delay of 1h", d)
	}
	c.MaxWait = 90 * time.Minute
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Delay != 0 {
		t.Errorf("%+v: want it on the other shard, without delay", d)
	}
}

func TestResetOfShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	c, beside := newCharge(t, "r", "k", "8/h shards 4", 1), newCharge(t, "r", "k2", "8/h shards 4", 2)
	for i := range 4 {
		lead(s, 4, i, (i+1)%4)
		for range 2 {
			mustTake(t, s, c)
		}
		mustTake(t, s, beside)
	}
	wantLeft(t, s, c, 0, 0, 0, 0)
	mustTake(t, s, c) // refused, and known to be
	if err := s.Reset(context.Background(), []tidegate.Charge{c}); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, s, c, 2, 2, 2, 2)
	wantLeft(t, s, beside, 0, 0, 0, 0)
	if d := mustTake(t, s, c)[0]; !d.Allowed {
		t.Errorf("%+v: the denied cache remembers what was reset", d)
	}
}

// Shards that a limit has before and after a change keep their share in use; those that are new are full.
func TestChangeOfShards(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	version := int64(0)
	limit := func(text string) tidegate.Charge {
		version++
		c := newCharge(t, "r", "k", text, 0)
		c.Version = version
		return c
	}
	spend := func(c tidegate.Charge, shard int, cost int64) {
		t.Helper()
		lead(s, max(2, c.Limit.Shards), shard, (shard+1)%max(2, c.Limit.Shards))
		c.Cost = cost
		if d := mustTake(t, s, c)[0]; !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	c := limit("80/h")
	spend(c, 0, 60)
	c = limit("80/h shards 2")
	wantLeft(t, s, c, 10, 40)
	spend(c, 1, 20)
	wantLeft(t, s, c, 10, 20)
	c = limit("80/h shards 4")
	wantLeft(t, s, c, 5, 10, 20, 20)
	c = limit("160/h shards 4")
	wantLeft(t, s, c, 10, 20, 40, 40)
	spend(c, 0, 1)
	spend(c, 3, 40)
	c = limit("160/h shards 2")
	wantLeft(t, s, c, 18, 40)
	if got := remaining(t, s, limit("160/h")); got != 36 {
		t.Errorf("without shards %d remain, want 36", got)
	}
}

// What fails on the other shard does not make a refusal an error, and the failure of the first is not tried elsewhere,
// where what may have been charged would be charged once more.
func TestFailureOfAShard(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	c := newCharge(t, "r", "k", "4/h shards 4", 1)
	keys, err := s.keys(&c)
	if err != nil {
		t.Fatal(err)
	}
	command(t, srv, "SET", keys[3], "somebody else's")
	lead(s, 4, 0, 3)
	mustTake(t, s, c)
	if d := mustTake(t, s, c)[0]; d.Allowed || d.RetryAfter != time.Hour {
		t.Errorf("%+v: want the first shard's refusal", d)
	}
	lead(s, 4, 3, 1)
	if _, err := s.Take(context.Background(), []tidegate.Charge{c}, nil); !errors.Is(err, tidegate.ErrStore) {
		t.Errorf("%v, want a store failure", err)
	}
	command(t, srv, "DEL", keys[3])
	wantLeft(t, s, c, 0, 1, 1, 1)
}

// Shards of plain buckets are decided by the run script, alone and in batches.
func TestShardsAreQuick(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	c := newCharge(t, "r", "k", "100000/h shards 8", 1)
	mustTake(t, s, c)
	before := commandStats(t, srv)
	mustTake(t, s, c)
	const callers, each = 32, 30
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err == nil && ds[0].Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	more := moreCalls(before, commandStats(t, srv))
	if reads := more["get"] + more["mget"]; reads == 0 || reads > callers*each/2 { // the take script reads once for each
		t.Errorf("%d takes made the calls %v", callers*each, more)
	}
	if allowed.Load() != callers*each {
		t.Errorf("%d of %d takes passed", allowed.Load(), callers*each)
	}
	if n := inUse(t, s, c); n < callers*each+2-10 || n > callers*each+2 { // some may have come back
		t.Errorf("%d are in use, but %d passed", n, callers*each+2)
	}
}

// However many ask at once, exactly the whole passes.
func TestShardsUnderContention(t *testing.T) {
	srv := redistest.Start(t)
	s := openCached(t, srv.URL(), nil)
	for _, limit := range []string{"403/9000h shards 8", "403/9000h fixed-window shards 8"} {
		c := newCharge(t, "r", limit, limit, 1)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if ds[0].Allowed {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := inUse(t, s, c); passed.Load() != 403 || n != 403 {
			t.Errorf("%s: %d passed and %d are in use, want 403", limit, passed.Load(), n)
		}
	}
}
