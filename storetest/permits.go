package storetest

import (
	"errors"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	rulePermit  = "a permit is held for its limit's TTL, to the microsecond, unless it is renewed or released before"
	ruleRelease = "Release gives the permit back; it is ErrUnknownID if none of the buckets has it"
	ruleRenew   = "Renew holds the permit for its limit's TTL from now; it is ErrUnknownID if any of its buckets has let go of it"
)

func permitCases() []testCase {
	return []testCase{
		{"release", ruleRelease, permitRelease},
		{"renew", ruleRenew, permitRenew},
		{"expiry", rulePermit, permitExpiry},
		{"several places", ruleRelease, permitPlaces},
		{"order of ends", "RetryAfter of permits is when enough of the first have ended", permitOrder},
		{"other names", ruleRelease, permitOtherNames},
		{"several buckets", ruleRenew, permitSeveral},
		{"beside other limits", ruleRelease, permitBeside},
		{"not settled", "a permit is no reservation: a settle of its ID is ErrUnknownID", permitNotSettled},
		{"not of permits", "what has no permits knows no ID", permitOfNone},
		{"ids", "an ID is any bytes up to 100, and no other names its permit", permitIDs},
		{"many", rulePermit, permitMany},
	}
}

// acquire takes permits and returns their ID.
func (b *bucket) acquire(n int64) string {
	b.x.Helper()
	c := b.asks(n)
	if d := b.x.takeAll(c)[0]; !d.Allowed {
		b.x.Errorf("%s: acquire %d: %s", b, n, say(d))
	}
	return c.ID
}

// wantRelease releases, and wants success or ErrUnknownID.
func (b *bucket) wantRelease(id string, known bool) {
	b.x.Helper()
	b.x.wantKnown("release", b.x.store.Release(b.x.Context(), id, []tidegate.Charge{b.charge}), known)
}

// wantRenew renews, and wants success or ErrUnknownID.
func (b *bucket) wantRenew(id string, known bool) {
	b.x.Helper()
	b.x.wantKnown("renew", b.x.store.Renew(b.x.Context(), id, []tidegate.Charge{b.charge}), known)
}

func (x *trial) wantKnown(what string, err error, known bool) {
	x.Helper()
	switch {
	case known && err != nil:
		x.Errorf("%s: %v", what, err)
	case !known && !errors.Is(err, tidegate.ErrUnknownID):
		x.Errorf("%s: error %v, want ErrUnknownID", what, err)
	}
}

func permitRelease(x *trial) {
	b := x.bucket("2 concurrent ttl 10s")
	first, second := b.acquire(1), b.acquire(1)
	b.wants(1, "no 0/2 retry 10s reset 10s")
	b.wantRelease(first, true)
	b.wantRelease(first, false)
	b.wantRelease("unknown", false)
	b.wantRenew(first, false)
	b.wants(0, "yes 1/2 reset 10s")
	third := b.acquire(1)
	b.wants(1, "no 0/2 retry 10s reset 10s")
	b.wantRelease(second, true)
	b.wantRelease(third, true)
	b.wants(0, "yes 2/2")
}

func permitRenew(x *trial) {
	b := x.bucket("2 concurrent ttl 10s")
	first := b.acquire(1)
	x.at(4 * sec)
	b.acquire(1)
	x.at(9 * sec)
	b.wantRenew(first, true)
	b.wants(1, "no 0/2 retry 5s reset 10s")
	x.at(14 * sec)
	b.wants(0, "yes 1/2 reset 5s")
	for n := range 20 {
		x.at(14*sec + time.Duration(n)*9*sec/2)
		b.wantRenew(first, true)
	}
	b.wants(0, "yes 1/2 reset 10s")
}

func permitExpiry(x *trial) {
	b := x.bucket("1 concurrent ttl 10s")
	first := b.acquire(1)
	x.at(10*sec - us)
	b.wants(1, "no 0/1 retry 1µs reset 1µs")
	b.wantRenew(first, true)
	x.at(20*sec - 2*us)
	b.wants(1, "no 0/1 retry 1µs reset 1µs")
	x.at(20*sec - us)
	b.wantRenew(first, false)
	b.wantRelease(first, false)
	b.wants(0, "yes 1/1")
	second := b.acquire(1)
	b.wantRelease(first, false) // by a holder that was thought dead
	b.wants(1, "no 0/1 retry 10s reset 10s")
	b.wantRelease(second, true)
}

func permitPlaces(x *trial) {
	b := x.bucket("10 concurrent ttl 10s")
	four, three := b.acquire(4), b.acquire(3)
	b.wants(4, "no 3/10 retry 10s reset 10s")
	x.at(5 * sec)
	b.wantRenew(four, true)
	b.wants(4, "no 3/10 retry 5s reset 10s")
	b.wantRelease(three, true)
	b.wants(0, "yes 6/10 reset 10s")
	b.wantRelease(four, true)
	b.wants(0, "yes 10/10")
}

func permitOrder(x *trial) {
	b := x.bucket("5 concurrent ttl 10s")
	ids := make([]string, 5)
	for i := range ids {
		x.at(time.Duration(i) * sec)
		ids[i] = b.acquire(1)
	}
	x.at(5 * sec)
	for i, retry := range []time.Duration{5 * sec, 6 * sec, 7 * sec, 8 * sec, 9 * sec} {
		if d := b.take(int64(i + 1)); d.RetryAfter != retry {
			x.Errorf("%s: %d more: %s, want retry %v", b, i+1, say(d), retry)
		}
	}
	b.wantRenew(ids[0], true)
	b.wantRelease(ids[2], true)
	b.wants(1, "yes 0/5 reset 10s")
	b.wants(1, "no 0/5 retry 6s reset 10s")
	b.wants(3, "no 0/5 retry 9s reset 10s")
}

func permitOtherNames(x *trial) {
	a, b := x.bucket("2 concurrent ttl 10s"), x.bucket("2 concurrent ttl 10s")
	c := a.asks(1)
	x.takeAll(c)
	b.wantRelease(c.ID, false)
	b.wantRenew(c.ID, false)
	b.wantRelease("", false)
	a.wants(0, "yes 1/2 reset 10s")
	d := b.asks(1)
	d.ID = c.ID // the same name elsewhere is another permit
	x.takeAll(d)
	b.wantRelease(c.ID, true)
	a.wants(0, "yes 1/2 reset 10s")
	a.wantRelease(c.ID, true)
}

func permitSeveral(x *trial) {
	a, b := x.bucket("2 concurrent ttl 10s"), x.bucket("3 concurrent ttl 20s")
	charges := []tidegate.Charge{a.asks(1), b.asks(2)}
	charges[1].ID = charges[0].ID
	id := charges[0].ID
	x.wantAll(x.takeAll(charges...), "yes 1/2 reset 10s", "yes 1/3 reset 20s")
	x.at(5 * sec)
	x.wantKnown("renew both", x.store.Renew(x.Context(), id, charges), true)
	x.wantAll(x.takeAll(a.asks(0), b.asks(0)), "yes 1/2 reset 10s", "yes 1/3 reset 20s")
	x.at(15 * sec) // the first has ended
	x.wantKnown("renew where one has ended", x.store.Renew(x.Context(), id, charges), false)
	x.wantKnown("release where one has ended", x.store.Release(x.Context(), id, charges), true)
	x.wantAll(x.takeAll(a.asks(0), b.asks(0)), "yes 2/2", "yes 3/3")
	x.wantKnown("release where both are gone", x.store.Release(x.Context(), id, charges), false)
	full := x.bucket("1 concurrent ttl 10s")
	full.acquire(1)
	charges = []tidegate.Charge{a.asks(1), full.asks(1)}
	charges[1].ID = charges[0].ID
	x.wantAll(x.takeAll(charges...), "yes 2/2", "no 0/1 retry 10s reset 10s")
	a.wantRelease(charges[0].ID, false)
}

func permitBeside(x *trial) {
	a, b := x.bucket("2 concurrent ttl 10s"), x.bucket("10/s burst 20")
	charges := []tidegate.Charge{b.asks(3), a.asks(1)}
	x.wantAll(x.takeAll(charges...), "yes 17/20 reset 300ms", "yes 1/2 reset 10s")
	x.wantKnown("renew", x.store.Renew(x.Context(), charges[1].ID, charges), true)
	x.wantKnown("release", x.store.Release(x.Context(), charges[1].ID, charges), true)
	x.wantAll(x.takeAll(b.asks(0), a.asks(0)), "yes 17/20 reset 300ms", "yes 2/2")
	b.drain()
	x.wantAll(x.takeAll(b.asks(3), a.asks(1)), "no 0/20 retry 300ms reset 2s", "yes 2/2")
}

func permitNotSettled(x *trial) {
	b := x.bucket("2 concurrent ttl 10s")
	c := b.asks(1)
	c.Hold = time.Hour
	x.takeAll(c)
	b.wantUnknown(c.ID)
	b.wantRelease(c.ID, true)
}

func permitOfNone(x *trial) {
	for _, a := range algorithms {
		if a.name != "permits" {
			b := x.ready(a.limit)
			b.take(1)
			b.wantRenew("id", false)
			b.wantRelease("id", false)
		}
	}
	id := x.name("id")
	b := x.bucket("10/s burst 20")
	c := b.asks(5)
	c.ID, c.Hold = id, time.Hour
	x.takeAll(c)
	b.wantRelease(id, false)
	b.wants(0, "yes 15/20 reset 500ms")
	b.wantSettle(id, 0)
}

func permitIDs(x *trial) {
	long := make([]byte, 100)
	for i := range long {
		long[i] = 'x'
	}
	ids := []string{
		"a", "A", " a", "a ", "0=a", "1=a", "#", "#0", "=", "0=", "\x00", "a\x00", "\n", "%61", "{a}", "é", "e\u0301", "\xff", "\xfe",
		string(long), string(long[:99]),
	}
	b := x.bucket("100 concurrent ttl 10s")
	for i, id := range ids {
		c := b.asks(int64(1 + i%3))
		c.ID = id
		x.takeAll(c)
	}
	for i, id := range ids {
		before := b.take(0).Remaining
		b.wantRenew(id, true)
		b.wantRelease(id, true)
		if got := b.take(0).Remaining - before; got != int64(1+i%3) {
			x.Errorf("release of %q gave %d back instead of %d", id, got, 1+i%3)
		}
	}
	b.wants(0, "yes 100/100")
}

func permitMany(x *trial) {
	b := x.bucket("300 concurrent ttl 10s")
	ids := make([]string, 300)
	for i := range ids {
		ids[i] = b.acquire(1)
		x.advance(ms)
	}
	b.wants(1, "no 0/300 retry 9.7s reset 9.999s")
	for i := 0; i < 300; i += 3 {
		b.wantRelease(ids[i], true)
	}
	if n := b.admit(1000); n != 100 {
		x.Errorf("%s: after 100 releases %d were admitted", b, n)
	}
	x.advance(9700*ms + 150*ms) // of the first 151, a third was released and acquired anew
	if d := b.take(0); d.Remaining != 100 {
		x.Errorf("%s: after the first 151 have ended: %s", b, say(d))
	}
}
