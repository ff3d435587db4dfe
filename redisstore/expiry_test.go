package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// lingers is how much longer than it needs the key of a plain bucket may be kept: see head.lua.
const lingers = 2 * time.Second

// ttl returns how long the server keeps a key; what it keeps for ever fails the test.
func ttl(t *testing.T, srv *redistest.Server, key string) time.Duration {
	t.Helper()
	ms, _ := command(t, srv, "PTTL", key).(int64)
	if ms == -1 {
		t.Errorf("%s is kept for ever", key)
	}
	return time.Duration(ms) * time.Millisecond
}

// size returns how many keys a server holds.
func size(t *testing.T, srv *redistest.Server) int64 {
	t.Helper()
	n, _ := command(t, srv, "DBSIZE").(int64)
	return n
}

// wantGone waits until the server has let go of every key.
func wantGone(t *testing.T, srv *redistest.Server) {
	t.Helper()
	eventually(t, 15*time.Second, "the buckets leave", func() error {
		if n := size(t, srv); n > 0 {
			return fmt.Errorf("%d keys are left: %q", n, storedKeys(t, srv, "*"))
		}
		return nil
	})
}

// TestExpiryIsAsLongAsTheBucketNeeds: on the real clock, a key is kept until its bucket is full again, and not much longer.
func TestExpiryIsAsLongAsTheBucketNeeds(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, v := range []struct {
		limit string
		more  time.Duration // kept beyond that, while a bucket is warm
	}{
		{limit: "10/h"},
		{limit: "10/day burst 10"},
		{limit: "1/18250day"}, // 50 years
		{limit: "600/s burst 100"},
		{limit: "10/min leaky-bucket queue 5"},
		{limit: "10/day fixed-window"},
		{limit: "10/month tz Asia/Shanghai fixed-window"},
		{limit: "10/year fixed-window"},
		{limit: "10/h sliding-window"},
		{limit: "10/day sliding-window slices 12"},
		{limit: "10/h sliding-log"},
		{limit: "10 concurrent ttl 5min"},
		{limit: "1000/s burst 1000 warmup 8s", more: 8 * time.Second},
	} {
		t.Run(v.limit, func(t *testing.T) {
			c := newCharge(t, "expiry", v.limit, v.limit, 1)
			kept := func(what string, d tidegate.Decision, before time.Time) {
				t.Helper()
				need := d.ResetAfter + v.more
				left := time.Duration(-1)
				for _, key := range storedKeys(t, srv, "*") {
					left = ttl(t, srv, key)
				}
				elapsed := time.Since(before)
				if left < 0 && elapsed >= need {
					return // it has left, as it should
				}
				room := 2 * time.Millisecond
				if c.Limit.Warmup == 0 && (c.Limit.Algorithm == tidegate.TokenBucket || c.Limit.Algorithm == tidegate.LeakyBucket) {
					room += lingers
				}
				if left < need-elapsed || left > need+room {
					t.Errorf("%s: kept for %v, but the bucket needs %v (%v ago)", what, left, need, elapsed)
				}
			}
			if v.more > 0 { // what has just been warmed up is kept for a second sight
				before := time.Now()
				kept("cold", mustTake(t, s, c)[0], before)
				eventually(t, 10*time.Second, "the first token", func() error {
					if before = time.Now(); !mustTake(t, s, c)[0].Allowed {
						return errors.New("none yet")
					}
					return nil
				})
				kept("warm", mustTake(t, s, peekOf(c))[0], before)
				command(t, srv, "FLUSHALL")
				return
			}
			for _, cost := range []int64{1, c.Limit.Capacity() - 1} {
				if c.Cost = cost; cost < 1 {
					continue
				}
				if c.ID != "" {
					c.ID = strconv.FormatInt(cost, 10)
				}
				before := time.Now()
				d := mustTake(t, s, c)[0]
				if !d.Allowed {
					t.Fatalf("a cost of %d: %+v", cost, d)
				}
				kept(fmt.Sprintf("a cost of %d", cost), d, before)
			}
			if c.Limit.Algorithm != tidegate.Concurrency && c.Limit.Capacity() > 1 {
				c.Cost = -1
				before := time.Now()
				kept("a refund", mustTake(t, s, c)[0], before)
			}
			command(t, srv, "FLUSHALL")
		})
	}
}

func peekOf(c tidegate.Charge) tidegate.Charge {
	c.Cost, c.ID = 0, ""
	return c
}

// TestBucketsLeave: a bucket that is as good as new leaves Redis by itself, and so does what a reservation left behind.
func TestBucketsLeave(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, limit := range []string{
		"10/200ms", "10/200ms leaky-bucket queue 9", "10/200ms warmup 80ms", "10/200ms fixed-window",
		"10/200ms sliding-window", "10/200ms sliding-window slices 4", "10/200ms sliding-log", "10 concurrent ttl 200ms",
	} {
		c := newCharge(t, "leave", limit, limit, 3)
		mustTake(t, s, c)
		if c.Limit.Algorithm != tidegate.Concurrency && c.Limit.Algorithm != tidegate.SlidingLog {
			c.Key, c.ID, c.Hold, c.MaxWait = "reserved "+limit, "id "+limit, 150*time.Millisecond, 100*time.Millisecond
			mustTake(t, s, c)
		}
	}
	if n := size(t, srv); n < 10 {
		t.Errorf("the server holds %d keys", n)
	}
	wantGone(t, srv)
}

// TestReservationsLeave: settled, cancelled or forgotten, a reservation leaves nothing but its charge.
func TestReservationsLeave(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	ctx := context.Background()
	c := newCharge(t, "reservations", "k", "10/1000h", 2)
	c.ID, c.Hold = "forgotten", 100*time.Millisecond
	mustTake(t, s, c)
	for _, key := range storedKeys(t, srv, "*") {
		ttl(t, srv, key)
	}
	settled := c
	settled.ID, settled.Hold = "settled", time.Hour
	mustTake(t, s, settled)
	if n := size(t, srv); n != 3 {
		t.Errorf("the server holds %d keys, not a bucket and two records", n)
	}
	if err := s.Settle(ctx, "settled", []tidegate.Charge{settled}, 0); err != nil {
		t.Error(err)
	}
	eventually(t, 15*time.Second, "the records leave", func() error {
		if n := size(t, srv); n != 1 {
			return fmt.Errorf("%d keys: %q", n, storedKeys(t, srv, "*"))
		}
		return nil
	})
	if err := s.Settle(ctx, "forgotten", []tidegate.Charge{c}, 0); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Errorf("settled too late: %v", err)
	}
	if n := remaining(t, s, c); n != 8 {
		t.Errorf("%d remain, not 8", n)
	}
	if err := s.Reset(ctx, []tidegate.Charge{c}); err != nil || size(t, srv) != 0 {
		t.Errorf("reset: %v, %d keys are left", err, size(t, srv))
	}
}

// TestEmptiedDayStaysEmpty: a limit of 10 a day is not full again every minute.
func TestEmptiedDayStaysEmpty(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	c := newCharge(t, "day", "k", "10/day burst 10", 10)
	if d := mustTake(t, s, c)[0]; !d.Allowed || d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	if left := ttl(t, srv, onlyKey(t, srv)); left < 24*time.Hour-10*time.Second || left > 24*time.Hour+lingers+2*time.Millisecond {
		t.Errorf("it is kept for %v, not a day", left)
	}
	c.Cost = 1
	d := mustTake(t, s, c)[0]
	if most := 24 * time.Hour / 10; d.Allowed || d.RetryAfter > most || d.RetryAfter < most-10*time.Second {
		t.Errorf("%+v", d)
	}
}

// TestHighRates: what is full again in a moment is kept for that moment, and never for none (RB-065).
func TestHighRates(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, v := range []struct {
		limit string
		n     int64
	}{
		{"6000/s burst 6000", 6000}, {"1000/min burst 1000", 1000}, {"1000000/s burst 1000000", 1_000_000}, {"1000000/s sliding-window", 1_000_000},
	} {
		c := newCharge(t, "high", v.limit, v.limit, v.n)
		if d := mustTake(t, s, c)[0]; !d.Allowed {
			t.Errorf("%s: %+v", v.limit, d)
		}
		if d := mustTake(t, s, c)[0]; d.Allowed {
			t.Errorf("%s: twice at once: %+v", v.limit, d)
		}
		if left := ttl(t, srv, onlyKey(t, srv)); left <= 0 {
			t.Errorf("%s: it is kept for %v", v.limit, left)
		}
		command(t, srv, "FLUSHALL")
	}
	// One at a time: the key may be gone before it is looked at, but neither is it an error nor there for ever.
	for _, limit := range []string{
		"6000/s burst 6000", "1000000/s", "1000000/s burst 1", "1000000/s leaky-bucket", "1000000/s fixed-window", "1000000/s sliding-window",
		"10000/ms sliding-log", "1000/ms fixed-window", "1000000/ms",
	} {
		c := newCharge(t, "high", limit, limit, 1)
		for range 200 {
			mustTake(t, s, c)
			for _, key := range storedKeys(t, srv, "*") {
				ttl(t, srv, key)
			}
		}
		command(t, srv, "FLUSHALL")
	}
}

// TestPeekWritesNothing: neither peeks nor what is refused, nor a refund to a full bucket, makes a key (RB-060).
func TestPeekWritesNothing(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, k := range kinds {
		for range 20 {
			c := newCharge(t, "peek", k.name, k.limit, 0)
			if d := mustTake(t, s, c)[0]; d.Limit != 10 || d.Allowed == k.cold() {
				t.Fatalf("%s: %+v", k.name, d)
			}
			if k.cold() {
				continue // whose climb begins with the first take
			}
			c = newCharge(t, "peek", k.name, k.limit, 11)
			if d := mustTake(t, s, c)[0]; d.Allowed || d.RetryAfter != tidegate.Never {
				t.Fatalf("%s: above capacity: %+v", k.name, d)
			}
			if c.ID == "" {
				mustTake(t, s, newCharge(t, "peek", k.name, k.limit, -5))
			}
		}
		if n := size(t, srv); n != 0 {
			t.Errorf("%s: the server holds %d keys", k.name, n)
		}
	}
	if err := s.Settle(context.Background(), "unknown", []tidegate.Charge{newCharge(t, "peek", "k", "10/s", 0)}, 3); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Error(err)
	}
	if n := size(t, srv); n != 0 {
		t.Errorf("the server holds %d keys", n)
	}
}

// TestDenialWritesNothing: what is refused, and a peek, leave a bucket as they found it.
func TestDenialWritesNothing(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, k := range kinds {
		if k.cold() {
			continue
		}
		c := newCharge(t, "denial", k.name, k.limit, 10)
		mustTake(t, s, c)
		key := onlyKey(t, srv)
		before := command(t, srv, "DUMP", key)
		c.Cost = 1
		if c.ID != "" {
			c.ID += "-2"
		}
		for _, charges := range [][]tidegate.Charge{{c}, {peekOf(c)}, {c, newCharge(t, "another", k.name, k.limit, 0)}} {
			if d := mustTake(t, s, charges...)[0]; d.Allowed {
				t.Errorf("%s: %+v", k.name, d)
			}
			if after := command(t, srv, "DUMP", key); after != before {
				t.Errorf("%s: it was changed from %q to %q", k.name, before, after)
			}
		}
		command(t, srv, "FLUSHALL")
	}
}

// TestLostExpiryHeals: a key whose expiry somebody removed neither locks anybody out nor stays (RB-095).
func TestLostExpiryHeals(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, limit := range []string{
		"10/300ms", "10/300ms leaky-bucket queue 9", "10/300ms fixed-window", "10/300ms sliding-window",
		"10/300ms sliding-log", "10 concurrent ttl 300ms",
	} {
		c := newCharge(t, "heal", limit, limit, 10)
		key := ""
		eventually(t, 10*time.Second, limit+" is emptied and kept for ever", func() error {
			mustTake(t, s, c)
			keys := storedKeys(t, srv, "*")
			if len(keys) != 1 || command(t, srv, "PERSIST", keys[0]) != int64(1) {
				return fmt.Errorf("the server holds %q", keys)
			}
			key = keys[0]
			return nil
		})
		if c.ID != "" {
			c.ID += "-2"
		}
		eventually(t, 10*time.Second, limit+" comes back", func() error {
			if d := mustTake(t, s, c)[0]; !d.Allowed {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
		eventually(t, 10*time.Second, limit+" is not kept for ever", func() error {
			if ms, _ := command(t, srv, "PTTL", key).(int64); ms != -1 && ms <= 1000+lingers.Milliseconds() {
				return nil
			}
			if c.ID != "" {
				return errors.New("it is")
			}
			c.Cost = 1
			mustTake(t, s, c) // a plain bucket's is told anew by a take within another second
			return errors.New("it is")
		})
		command(t, srv, "FLUSHALL")
	}
}

// TestExpiryChangesNothing: whether a key leaves at its expiry or stays, no decision differs. The clock is injected, so
// that the test lets the keys go itself, each at its millisecond. What steps back or changes its limit is left out: a
// bucket that is as good as new and forgotten knows neither its time nor its limit any more.
func TestExpiryChangesNothing(t *testing.T) {
	srv := redistest.Start(t)
	if reply, err := srv.Do("PEXPIRETIME", "k"); err != nil {
		t.Skipf("this server cannot tell when a key expires: %v %v", reply, err)
	}
	// Removes what has expired by the millisecond ARGV[2], and returns how many keys never do.
	const expire = `local n = 0
		for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
			local at = redis.call('PEXPIRETIME', key)
			n = n + (at < 0 and 1 or 0)
			local _ = at <= tonumber(ARGV[2]) and redis.call('DEL', key)
		end
		return n`
	seed := uint64(envInt(t, "TIDEGATE_CONFORMANCE_SEED", int(time.Now().UnixNano()&0xffffffff)))
	t.Logf("seed %d: repeat with TIDEGATE_CONFORMANCE_SEED=%d", seed, seed)
	client := redis.NewClient(&redis.Options{Network: srv.Network, Addr: srv.Addr})
	defer client.Close()
	for run := range uint64(10) {
		prefix := fmt.Sprintf("run%d:", run)
		g, p := newGenerator(seed+run, false), newPair(t, srv.URL(), prefix)
		now, limits := int64(0), map[string]*tidegate.Limit{}
		for i := range 1200 {
			o := g.next()
			now = max(now, o.now)
			o.now = now
			for j := range o.charges {
				c := &o.charges[j]
				if limits[c.Rule] == nil {
					limits[c.Rule] = c.Limit
				}
				c.Limit, c.Version = limits[c.Rule], 0
				if c.Limit.Algorithm == tidegate.None {
					c.Cost = max(c.Cost, 0)
				}
			}
			forever, err := client.Eval(context.Background(), expire, nil, prefix+"*", now/1000).Int()
			if err != nil || forever != 0 {
				t.Fatalf("seed %d, run %d, operation %d: %d keys never expire (%v)", seed, run, i, forever, err)
			}
			p.now = now
			kept, left := o.apply(p.goes), o.apply(p.redis)
			if !same(kept, left) {
				t.Fatalf("seed %d, run %d, operation %d: %v\nkept:    %s\nexpired: %s", seed, run, i, o, kept, left)
			}
		}
	}
}
