package storetest

import (
	"errors"
	"time"

	"github.com/tidegate-go/tidegate"
)

// reservation charges several buckets under one ID.
func (x *trial) reservation(charges ...tidegate.Charge) (string, []tidegate.Decision) {
	x.Helper()
	id := x.name("reservation")
	for i := range charges {
		charges[i].ID, charges[i].Hold, charges[i].MaxWait = id, time.Hour, time.Minute
	}
	return id, x.takeAll(charges...)
}

func settleSeveral(x *trial) {
	a, b, c := x.bucket("10/s burst 20"), x.bucket("5/min fixed-window"), x.bucket("20/min sliding-window")
	b.drain()
	charges := []tidegate.Charge{a.asks(4), b.asks(4), c.asks(4)}
	id, ds := x.reservation(charges...)
	x.wantAll(ds, "yes 16/20 reset 400ms", "yes 0/5 delay 1m0s reset 2m0s", "yes 16/20 reset 2m0s")
	if err := x.store.Settle(x.Context(), id, charges, 1); err != nil {
		x.Errorf("settle of three: %v", err)
	}
	x.wantAll(x.takeAll(a.asks(0), c.asks(0)), "yes 19/20 reset 100ms", "yes 19/20 reset 2m0s")
	x.at(time.Minute)
	b.wants(0, "yes 4/5 reset 1m0s")
	if err := x.store.Settle(x.Context(), id, charges, 0); !errors.Is(err, tidegate.ErrUnknownID) {
		x.Errorf("settle of three, again: %v", err)
	}
}

func settleTwice(x *trial) {
	b := x.bucket("10/s burst 20")
	charges := []tidegate.Charge{b.asks(4), b.asks(6)}
	id, _ := x.reservation(charges...)
	if err := x.store.Settle(x.Context(), id, charges, 1); err != nil {
		x.Errorf("settle of a bucket charged twice: %v", err)
	}
	b.wants(0, "yes 18/20 reset 200ms")
}

func settleShadow(x *trial) {
	a, dark, room := x.bucket("10/s burst 20"), x.bucket("10/s burst 5"), x.bucket("10/s burst 5")
	dark.take(4)
	charges := []tidegate.Charge{dark.inShadow(3), a.asks(3), room.inShadow(3)}
	id := x.name("reservation")
	for i := range charges {
		charges[i].ID, charges[i].Hold = id, time.Hour
	}
	x.wantAll(x.takeAll(charges...), "no 1/5 retry 200ms reset 400ms", "yes 17/20 reset 300ms", "yes 2/5 reset 300ms")
	if err := x.store.Settle(x.Context(), id, charges, 0); err != nil {
		x.Errorf("settle: %v", err)
	}
	dark.wants(0, "yes 1/5 reset 400ms")
	a.wants(0, "yes 20/20")
	room.wants(0, "yes 5/5")
}

func settleBesideUnlimited(x *trial) {
	free, a := x.bucket("unlimited"), x.bucket("10/s burst 20")
	charges := []tidegate.Charge{free.asks(4), a.asks(4)}
	id, _ := x.reservation(charges...)
	if err := x.store.Settle(x.Context(), id, charges, 1); err != nil {
		x.Errorf("settle: %v", err)
	}
	a.wants(0, "yes 19/20 reset 100ms")
}

// A request that is charged and holds a permit has both under one ID, beside a log, which has neither.
func settleBesidePermits(x *trial) {
	log, places, a := x.bucket("5/h sliding-log"), x.bucket("2 concurrent"), x.bucket("10/s burst 20")
	id := x.name("reservation")
	charges := []tidegate.Charge{log.asks(1), places.asks(1), a.asks(4)}
	for i := range charges[1:] {
		charges[1+i].ID, charges[1+i].Hold = id, time.Hour
	}
	x.takeAll(charges...)
	if err := x.store.Release(x.Context(), id, charges[1:2]); err != nil {
		x.Errorf("release: %v", err)
	}
	x.wantAll(x.takeAll(log.asks(0), places.asks(0), a.asks(0)), "yes 4/5 reset 1h0m0s", "yes 2/2", "yes 16/20 reset 400ms")
	if err := x.store.Settle(x.Context(), id, charges, 0); err != nil {
		x.Errorf("settle: %v", err)
	}
	x.wantAll(x.takeAll(log.asks(0), places.asks(0), a.asks(0)), "yes 4/5 reset 1h0m0s", "yes 2/2", "yes 20/20")
}

func settleOtherKeys(x *trial) {
	a, b, c := x.bucket("10/s burst 20"), x.bucket("10/s burst 20"), x.bucket("10/s burst 20")
	a.charge.Key, b.charge.Key, c.charge.Key = "key", "key", "key"
	charges := []tidegate.Charge{a.asks(4), b.asks(4)}
	id, _ := x.reservation(charges...)
	otherRule, otherKey := a.charge, a.charge
	otherRule.Rule, otherKey.Key = "another", "another"
	for name, wrong := range map[string][]tidegate.Charge{
		"another bucket":  {a.charge, c.charge},
		"another rule":    {otherRule, b.charge},
		"another key":     {otherKey, b.charge},
		"one too few":     {a.charge},
		"one too many":    {a.charge, b.charge, c.charge},
		"the wrong order": {b.charge, a.charge},
		"one twice":       {a.charge, a.charge},
	} {
		if err := x.store.Settle(x.Context(), id, wrong, 0); !errors.Is(err, tidegate.ErrUnknownID) {
			x.Errorf("settle that names %s: error %v", name, err)
		}
	}
	x.wantAll(x.takeAll(a.asks(0), b.asks(0), c.asks(0)), "yes 16/20 reset 400ms", "yes 16/20 reset 400ms", "yes 20/20")
	if err := x.store.Settle(x.Context(), id, charges, 0); err != nil {
		x.Errorf("settle that names the right ones, after all: %v", err)
	}
	x.wantAll(x.takeAll(a.asks(0), b.asks(0)), "yes 20/20", "yes 20/20")
}
