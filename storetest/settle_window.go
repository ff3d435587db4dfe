package storetest

import "time"

func settleFormerWindow(x *trial) {
	for _, limit := range []string{"5/min fixed-window", "5/day tz UTC", "5/month"} { // RB-114
		x.at(0)
		b := x.bucket(limit)
		id, _ := b.reserve(3, 0, 100*day)
		other, _ := b.reserve(1, 0, 100*day)
		x.advance(b.take(0).ResetAfter)
		b.take(4)
		b.wantSettle(id, 0)
		if d := b.take(0); d.Remaining != 1 {
			x.Errorf("%s: a rest of the former window was refunded into this one: %s", b, say(d))
		}
		b.wantSettle(other, 3) // an excess is charged, whenever it becomes known
		if d := b.take(0); d.Remaining != 0 {
			x.Errorf("%s: an excess of 2 where 1 was left: %s", b, say(d))
		}
	}
}

func settleNextWindow(x *trial) {
	b := x.bucket("5/min fixed-window")
	b.drain()
	id, _ := b.reserve(4, time.Hour, time.Hour)
	x.at(30 * sec)
	b.wantSettle(id, 1)
	b.wants(1, "no 0/5 retry 30s reset 1m30s") // this window is as full as before
	x.at(time.Minute)
	b.wants(0, "yes 4/5 reset 1m0s")
}

func settleBegunWindow(x *trial) {
	b := x.bucket("5/min fixed-window")
	b.drain()
	id, _ := b.reserve(4, time.Hour, time.Hour)
	x.at(70 * sec)
	b.wants(1, "yes 0/5 reset 50s")
	b.wantSettle(id, 2)
	b.wants(0, "yes 2/5 reset 50s")
}

func settleSlice(x *trial) {
	b := x.bucket("20/min sliding-window slices 2")
	b.take(5)
	x.at(10 * sec)
	id, _ := b.reserve(6, 0, time.Hour)
	x.at(40 * sec)
	b.take(7)
	b.wantSettle(id, 0) // out of the first slice, which weighs in full until 60 s
	b.wants(0, "yes 8/20 reset 1m20s")
	x.at(75 * sec)
	b.wants(0, "yes 10/20 reset 45s") // half of the first 5 have left
	c := x.bucket("20/min sliding-window slices 2")
	id, _ = c.reserve(6, 0, time.Hour)
	x.at(5 * time.Minute)
	c.take(7)
	c.wantSettle(id, 0)
	if d := c.take(0); d.Remaining != 13 {
		x.Errorf("%s: a rest of a slice that has left was refunded: %s", c, say(d))
	}
}
