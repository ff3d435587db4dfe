package storetest

import (
	"errors"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleMaxWait   = "a take with MaxWait is charged now for a start up to so much later, which its Delay says; otherwise it charges nothing"
	ruleFIFO      = "what is reserved starts in the order in which the store saw it, and nobody overtakes"
	ruleNext      = "a window charges the next one at most"
	ruleNoReserve = "sliding logs and permits refuse a MaxWait, and sliding logs an ID, with ErrUnsupported"
)

// notReserving are the algorithms that have no reservations.
var notReserving = []string{"sliding log", "permits"}

func reserveCases() []testCase {
	cases := []testCase{
		{"token bucket", ruleMaxWait, reserveBucket},
		{"in order", ruleFIFO, reserveInOrder},
		{"leaky bucket", ruleMaxWait, reserveLeaky},
		{"leaky bucket with a queue", "a MaxWait makes the queue of a leaky bucket no longer", reserveQueue},
		{"fixed window", ruleNext, reserveFixed},
		{"sliding window", ruleNext, reserveSliding},
		{"sliding window, nobody overtakes", ruleFIFO, reserveSlidingOrder},
		{"several", "the delay of each charge is that of its own bucket", reserveSeveral},
		{"several, one too late", ruleAll, reserveSeveralLate},
		{"unsupported", ruleNoReserve, reserveUnsupported},
	}
	cases = append(cases, forEach("above capacity", ruleNever, reserveNever, notReserving...)...)
	cases = append(cases, forEach("too late", ruleMaxWait, reserveTooLate, notReserving...)...)
	cases = append(cases, forEach("peek", rulePeek, reservePeek, notReserving...)...)
	return append(cases, forEach("start", ruleMaxWait, reserveStart, notReserving...)...)
}

// reserve takes with MaxWait and returns the ID of the reservation. If hold is negative it has none.
func (b *bucket) reserve(cost int64, maxWait, hold time.Duration) (string, tidegate.Decision) {
	b.x.Helper()
	c := b.asks(cost)
	c.MaxWait = maxWait
	if hold >= 0 {
		c.ID, c.Hold = b.x.name("reservation"), hold
	}
	return c.ID, b.x.takeAll(c)[0]
}

// wantReserve reserves and compares the whole decision with its text.
func (b *bucket) wantReserve(cost int64, maxWait time.Duration, want string) {
	b.x.Helper()
	if _, d := b.reserve(cost, maxWait, -1); say(d) != want {
		b.x.Errorf("%s: a reservation of %d within %v: got %q, want %q", b, cost, maxWait, say(d), want)
	}
}

func reserveBucket(x *trial) {
	b := x.bucket("10/s burst 10")
	b.wantReserve(4, sec, "yes 6/10 reset 400ms") // there is room at once
	b.drain()
	b.wantReserve(5, 500*ms-us, "no 0/10 retry 500ms reset 1s")
	b.wantReserve(5, 500*ms, "yes 0/10 delay 500ms reset 1.5s")
	b.wants(1, "no 0/10 retry 600ms reset 1.5s")
	x.at(500 * ms)
	b.wants(1, "no 0/10 retry 100ms reset 1s")
	x.at(600 * ms)
	b.wants(1, "yes 0/10 reset 1s")
	b.wantReserve(10, time.Hour, "yes 0/10 delay 1s reset 2s")
	b.wantReserve(10, time.Hour, "yes 0/10 delay 2s reset 3s")
}

func reserveInOrder(x *trial) {
	b := x.bucket("10/s burst 5")
	b.drain()
	b.wantReserve(3, sec, "yes 0/5 delay 300ms reset 800ms")
	b.wantReserve(1, sec, "yes 0/5 delay 400ms reset 900ms")
	x.at(350 * ms)
	b.wantReserve(1, sec, "yes 0/5 delay 150ms reset 650ms")
	b.wants(1, "no 0/5 retry 250ms reset 650ms")
}

func reserveLeaky(x *trial) {
	b := x.bucket("10/s leaky-bucket")
	b.wants(1, "yes 0/1 reset 100ms")
	b.wants(1, "no 0/1 retry 100ms reset 100ms")
	b.wantReserve(1, 99*ms, "no 0/1 retry 100ms reset 100ms")
	b.wantReserve(1, 100*ms, "yes 0/1 delay 100ms reset 200ms")
	b.wantReserve(1, sec, "yes 0/1 delay 200ms reset 300ms")
	x.at(150 * ms)
	b.wantReserve(1, sec, "yes 0/1 delay 150ms reset 250ms")
}

func reserveQueue(x *trial) {
	b := x.bucket("10/s leaky-bucket queue 2")
	b.wantReserve(1, time.Hour, "yes 2/3 reset 100ms")
	b.wantReserve(1, 50*ms, "no 2/3 retry 100ms reset 100ms") // the queue has room, but the caller has no time
	b.wantReserve(1, time.Hour, "yes 1/3 delay 100ms reset 200ms")
	b.wantReserve(1, time.Hour, "yes 0/3 delay 200ms reset 300ms")
	if _, d := b.reserve(1, time.Hour, -1); d.Allowed {
		x.Errorf("%s: a fourth place in a queue of 2: %s", b, say(d))
	}
	b.wants(0, "no 0/3 retry 100ms reset 300ms")
}

func reserveFixed(x *trial) {
	b := x.bucket("5/min fixed-window")
	x.at(20 * sec)
	b.wantReserve(2, time.Hour, "yes 3/5 reset 40s")
	b.wantReserve(4, 40*sec-us, "no 3/5 retry 40s reset 40s")
	b.wantReserve(4, 40*sec, "yes 3/5 delay 40s reset 1m40s")
	b.wantReserve(1, time.Hour, "yes 2/5 reset 1m40s") // there is still room in this one
	b.wantReserve(3, time.Hour, "no 2/5 retry 1m40s reset 1m40s")
	b.wants(3, "no 2/5 retry 1m40s reset 1m40s") // in the next one there will be room for 1
	b.wants(2, "yes 0/5 reset 1m40s")
	b.wants(1, "no 0/5 retry 40s reset 1m40s")
	x.at(60 * sec)
	b.wants(0, "yes 1/5 reset 1m0s")
	b.wants(2, "no 1/5 retry 1m0s reset 1m0s")
	b.wantReserve(5, time.Hour, "yes 1/5 delay 1m0s reset 2m0s")
	x.at(180 * sec)
	b.wants(0, "yes 5/5")
}

func reserveSliding(x *trial) {
	b := x.bucket("10/min sliding-window")
	b.drain()
	b.wantReserve(1, 65*sec, "no 0/10 retry 1m6s reset 2m0s")
	b.wantReserve(1, 66*sec, "yes 0/10 delay 1m6s reset 3m0s")
	if _, d := b.reserve(10, 24*time.Hour, -1); d.Allowed {
		x.Errorf("%s: a reservation of the window after the next: %s", b, say(d))
	}
}

func reserveSlidingOrder(x *trial) {
	b := x.bucket("10/min sliding-window")
	b.drain()
	x.at(30 * sec)
	b.wantReserve(5, time.Hour, "yes 0/10 delay 1m0s reset 2m30s")
	x.at(66 * sec)
	if d := b.take(1); d.Allowed { // there would be room, were it not for those that wait
		x.Errorf("%s: overtaking a reservation of 5 that starts at 90 s: %s", b, say(d))
	}
	x.at(96 * sec)
	b.wants(1, "yes 0/10 reset 1m24s")
}

func reserveSeveral(x *trial) {
	a, b, c := x.bucket("10/s burst 10"), x.bucket("5/min fixed-window"), x.bucket("100/s burst 100")
	a.drain()
	b.drain()
	charges := []tidegate.Charge{a.asks(5), b.asks(1), c.asks(1)}
	for i := range charges {
		charges[i].MaxWait = time.Minute
	}
	x.wantAll(x.takeAll(charges...), "yes 0/10 delay 500ms reset 1.5s", "yes 0/5 delay 1m0s reset 2m0s", "yes 99/100 reset 10ms")
}

func reserveSeveralLate(x *trial) {
	a, b := x.bucket("10/s burst 10"), x.bucket("5/min fixed-window")
	a.drain()
	b.drain()
	charges := []tidegate.Charge{a.asks(5), b.asks(1)}
	for i := range charges {
		charges[i].MaxWait = 59 * sec
	}
	if ds := x.takeAll(charges...); !ds[0].Allowed || ds[1].Allowed {
		x.Errorf("within 59 s: %s, %s", say(ds[0]), say(ds[1]))
	}
	a.wants(1, "no 0/10 retry 100ms reset 1s")
	b.wants(1, "no 0/5 retry 1m0s reset 1m0s")
}

func reserveUnsupported(x *trial) {
	for _, c := range []struct {
		limit string
		wait  time.Duration
		id    string
	}{
		{"20/min sliding-log", sec, ""},
		{"20/min sliding-log", sec, "id"},
		{"20/min sliding-log", 0, "id"},
		{"20 concurrent ttl 1m", sec, "id"},
		{"20 concurrent ttl 1m", sec, ""},
		{"20 concurrent ttl 1m", 0, ""},
	} {
		b, other := x.bucket(c.limit), x.bucket("10/s burst 20")
		charge := b.charge
		charge.Cost, charge.MaxWait, charge.ID = 1, c.wait, c.id
		_, err := x.store.Take(x.Context(), []tidegate.Charge{other.asks(1), charge}, nil)
		if !errors.Is(err, tidegate.ErrUnsupported) {
			x.Errorf("%s within %v with ID %q: error %v", b, c.wait, c.id, err)
		}
		if d := b.take(0); d.Remaining != capacity {
			x.Errorf("%s: after an error: %s", b, say(d))
		}
		other.wants(0, "yes 20/20")
	}
}

func reserveNever(x *trial, a algorithm) {
	b := x.ready(a.limit)
	if _, d := b.reserve(capacity+1, 365*day, 0); d.Allowed || d.RetryAfter != tidegate.Never {
		x.Errorf("%s: a reservation of %d: %s", b, capacity+1, say(d))
	}
	if d := b.take(0); d.Remaining != capacity {
		x.Errorf("%s: afterwards: %s", b, say(d))
	}
}

func reserveTooLate(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.drain()
	before := b.take(0)
	cost := int64(3)
	_, d := b.reserve(cost, us, 0)
	if d.Allowed || d.RetryAfter <= us {
		x.Errorf("%s: a reservation within %v: %s", b, us, say(d))
	}
	b.wants(0, say(before))
	x.advance(d.RetryAfter)
	if late := b.take(cost); !late.Allowed {
		x.Errorf("%s: a reservation was refused: %s, and then %s", b, say(d), say(late))
	}
}

func reservePeek(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.drain()
	c := b.asks(0)
	c.MaxWait, c.ID, c.Hold = time.Hour, "peek", time.Hour
	before := say(b.take(0))
	for range 3 {
		x.takeAll(c)
	}
	b.wants(0, before)
	if err := b.settle("peek", 0); !errors.Is(err, tidegate.ErrUnknownID) {
		x.Errorf("%s: settling a peek: %v", b, err)
	}
}

// reserveStart reserves what does not fit now, and looks at its start whether anybody else could have it.
func reserveStart(x *trial, a algorithm) {
	b, _, delay := x.waiting(a, 0)
	tick := x.resolution(b.charge.Limit)
	x.advance(delay - tick)
	if other := b.take(1); other.Allowed {
		x.Errorf("%s: overtaking a reservation: %s", b, say(other))
	}
	x.advance(tick)
	b.admit(100)
	x.advance(b.take(0).ResetAfter)
	if n := b.admit(100); n > b.charge.Limit.Capacity() {
		x.Errorf("%s: after a reservation %d were admitted at once", b, n)
	}
}
