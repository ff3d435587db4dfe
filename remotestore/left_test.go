package remotestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

// What a caller would have held who left while the server decided is given back.
func TestWhoLeavesHoldsNothing(t *testing.T) {
	g := newGate()
	srv := serve(t, storeservice.Config{Store: memory(t, nil)}, g.option())
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	permit, reserved := newCharge(t, "p", "5 concurrent ttl 10m", 1), newCharge(t, "b", "10/1000h", 3)
	permit.ID = "one"
	reserved.ID, reserved.Hold = "one", time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, []tidegate.Charge{permit, reserved}, nil)
		left <- err
	}()
	<-g.arrived
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.pass <- struct{}{}
	permit.Cost, permit.ID = 0, ""
	reserved.Cost, reserved.ID, reserved.Hold = 0, "", 0
	for _, c := range []tidegate.Charge{permit, reserved} {
		until(t, "it is given back", func() bool {
			g.pass <- struct{}{}
			d := mustTake(t, s, c)[0]
			<-g.arrived
			return d.Remaining == d.Limit
		})
	}
}
