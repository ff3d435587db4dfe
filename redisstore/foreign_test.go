package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// TestForeignValue: something else under a bucket's key is an error of the takes that meet it, which says so, leaves it
// alone and charges nothing else.
func TestForeignValue(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	ctx := context.Background()
	for _, k := range kinds {
		c := newCharge(t, k.name, "k", k.limit, 1)
		reserved := c
		if c.ID == "" && c.Limit.Algorithm != tidegate.SlidingLog && !k.cold() {
			reserved.ID, reserved.Hold = "id", time.Hour
		}
		for name, write := range map[string][]string{
			"string": {"SET", "", "hello"},
			"empty":  {"SET", "", ""},
			"number": {"SET", "", "42"},
			"json":   {"SET", "", `{"a":"b|c"}`},
			"list":   {"RPUSH", "", "a", "b"},
			"zset":   {"ZADD", "", "1", "a", "2", "b"},
			"set":    {"SADD", "", "a", "b"},
			"hash":   {"HSET", "", "a", "b"},
			"stream": {"XADD", "", "*", "a", "b"},
		} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				command(t, srv, "FLUSHALL")
				mustTake(t, s, reserved)
				key := bucketKeyOf(t, srv)
				command(t, srv, "DEL", key)
				write[1] = key
				command(t, srv, write...)
				before := command(t, srv, "DUMP", key)

				other := newCharge(t, "other", "k", "10/1000h", 1)
				shadow := c
				shadow.Shadow = true
				meet := func(what string, f func() error) {
					t.Helper()
					err := f()
					wantStoreError(t, err)
					if err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
						t.Errorf("%s: the error does not tell: %v", what, err)
					}
				}
				for what, charges := range map[string][]tidegate.Charge{
					"a take": {c}, "a peek": {peekOf(c)}, "a take of two": {other, c}, "in shadow": {other, shadow},
				} {
					meet(what, func() error { _, err := s.Take(ctx, charges, nil); return err })
				}
				if c.ID == "" {
					refund := c
					refund.Cost = -1
					meet("a refund", func() error { _, err := s.Take(ctx, []tidegate.Charge{refund}, nil); return err })
				} else {
					meet("renew", func() error { return s.Renew(ctx, c.ID, []tidegate.Charge{c}) })
					meet("release", func() error { return s.Release(ctx, c.ID, []tidegate.Charge{c}) })
				}
				if reserved.Hold > 0 {
					meet("settle", func() error { return s.Settle(ctx, reserved.ID, []tidegate.Charge{reserved}, 0) })
				}
				if after := command(t, srv, "DUMP", key); after != before {
					t.Errorf("it was changed from %q to %q", before, after)
				}
				if ms := command(t, srv, "PTTL", key); ms != int64(-1) {
					t.Errorf("it was given an expiry of %v ms", ms)
				}
				if n := remaining(t, s, other); n != 10 {
					t.Errorf("the other bucket was charged: %d remain", n)
				}
				// Who resets the bucket wants it gone.
				if err := s.Reset(ctx, []tidegate.Charge{c}); err != nil {
					t.Error(err)
				}
				mustTake(t, s, c)
			})
		}
	}
}

// bucketKeyOf returns the key of the only bucket that the server holds, next to records of reservations.
func bucketKeyOf(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	for _, key := range storedKeys(t, srv, "*") {
		if !strings.Contains(key, "%!") {
			return key
		}
	}
	t.Fatalf("the server holds %q", storedKeys(t, srv, "*"))
	return ""
}

// TestForeignRecord: something else under the key of a reservation's record.
func TestForeignRecord(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	c := newCharge(t, "record", "k", "10/1000h", 3)
	c.ID, c.Hold = "id", time.Hour
	mustTake(t, s, c)
	for _, key := range storedKeys(t, srv, "*%!id") {
		command(t, srv, "DEL", key)
		command(t, srv, "RPUSH", key, "a")
	}
	wantStoreError(t, s.Settle(context.Background(), c.ID, []tidegate.Charge{c}, 0))
	if n := remaining(t, s, c); n != 7 {
		t.Errorf("%d remain, not 7", n)
	}
}

// TestOtherAlgorithmsState: a state that another algorithm left is carried over, not an error: the share in use stays,
// rounded down. A bucket has refilled a little by then, so that one more may be left.
func TestOtherAlgorithmsState(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for _, from := range kinds {
		for _, to := range kinds {
			if from == to || from.cold() {
				continue
			}
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				command(t, srv, "FLUSHALL")
				before := newCharge(t, "change", "k", from.limit, 5)
				mustTake(t, s, before)
				key := onlyKey(t, srv)
				after := newCharge(t, "change", "k", to.limit, 1)
				after.Version = time.Now().UnixMicro()
				if before.ID != "" && to.cold() {
					return // nothing to carry over
				}
				want := int64(5) // of 10, as before
				if before.ID != "" || after.ID != "" {
					want = 10 // what is in flight is not spent
				}
				check := func(what string, c tidegate.Charge, want int64) {
					t.Helper()
					if d := mustTake(t, s, c)[0]; !d.Allowed || d.Remaining != want && d.Remaining != want+1 || d.Limit != 10 {
						t.Errorf("%s: %+v; %d should remain", what, d, want)
					}
				}
				check("a peek", peekOf(after), want)
				if got := onlyKey(t, srv); got != key {
					t.Errorf("the key is %q, not %q", got, key)
				}
				check("a take", after, want-1)
				if left := ttl(t, srv, onlyKey(t, srv)); left <= 0 {
					t.Errorf("it is kept for %v", left)
				}
				// Who lags behind is decided under the bucket's own limit.
				check("an older version", peekOf(before), want-1)
			})
		}
	}
}

// doubles writes numbers as the state of a bucket has them.
func doubles(numbers ...float64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n))
	}
	return string(b)
}

// TestGarbledState: what begins like a bucket of ours and is none is an error too, and stays as it is.
func TestGarbledState(t *testing.T) {
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	other, sound := newCharge(t, "other", "k", "10/1000h", 1), newCharge(t, "sound", "k", "10000/1000h", 1)
	for _, k := range kinds {
		c := newCharge(t, k.name, "k", k.limit, 1)
		command(t, srv, "FLUSHALL")
		mustTake(t, s, c)
		key := onlyKey(t, srv)
		l, err := s.limits.of(&c)
		if err != nil {
			t.Fatal(err)
		}
		tail := "|0|" + l.params.Spec
		texts := []string{
			"||", "1 2|0|", "1 2|0|b", "1 2|0|b 1 2 3 4 5 6", "|0|b 1 1 10 0 100 0 1", "x|0|b 1 1 10 0 100 0 1", "1 2|0|z 1 2", "x|0|f 1 2", "1 2 3|0|f 10 x",
			"|0|w 1 2 3 4", "1 2|1|l 10 20", "1 2|2|p 1 2", "1 2|0|b 1 1 10 0 100 0 1|", "0|b|1 2",
			"0123456789abcde|0|b 1 1 10 0 100 0 1", "0123456789abcdefg|0|b 1 1 10 0 100 0 1",
			doubles(math.NaN(), 0) + tail, doubles(0, math.NaN()) + tail, doubles(-1, 0) + tail, doubles(0.5, 0) + tail, doubles(0.5, 1<<52) + tail,
			doubles(1<<53, 0) + tail, doubles(0, math.Inf(1)) + tail, doubles(1, 2, 3, 4) + tail,
		}
		if l.params.Kind == algo.Fixed {
			for _, n := range [][3]float64{
				{0.5, 1, 0}, {math.NaN(), 1, 0}, {-1, 1, 0}, {1 << 53, 1, 0}, {1, math.NaN(), 0}, {1, 0.5, 0}, {1, -1, 0}, {1, 1 << 53, 0},
				{1, 1, math.NaN()}, {1, 1, 0.5}, {1, 1, -1}, {1 << 52, 1, 1e300},
			} {
				texts = append(texts, doubles(n[:]...)+tail)
			}
		}
		for _, text := range texts {
			command(t, srv, "SET", key, text)
			_, err := s.Take(context.Background(), []tidegate.Charge{other, c}, nil)
			if err == nil {
				t.Errorf("%s, %q: no error", k.name, text)
				continue
			}
			wantStoreError(t, err)
			if got := command(t, srv, "GET", key); got != text {
				t.Errorf("%s: %q became %q", k.name, text, got)
			}
			// In one batch with a bucket that is sound, it is an error of its own takes alone.
			l.misses.Store(0) // the quick scripts shall meet it too
			takes, callers, free := batchOf(t, s, [][]tidegate.Charge{{sound}, {c}}, never)
			s.decideBatch(context.Background(), takes, new(plan))
			if ds, err := callers[0].answer(); err != nil || !ds[0].Allowed || takes[1].err == nil {
				t.Errorf("%s, %q, in a batch: %+v, %v; %v", k.name, text, ds, err, takes[1].err)
			}
			free()
		}
		if n := remaining(t, s, other); n != 10 {
			t.Errorf("%s: the other bucket has %d, not 10", k.name, n)
		}
	}
}
