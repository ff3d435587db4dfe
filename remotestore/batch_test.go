package remotestore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// gate holds calls of takes until the test lets them go, and remembers them.
type gate struct {
	arrived chan *storev1.TakeRequest
	pass    chan struct{}
}

func newGate() *gate {
	return &gate{make(chan *storev1.TakeRequest, 100), make(chan struct{}, 100)}
}

func (g *gate) option() grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if take, ok := r.(*storev1.TakeRequest); ok {
			g.arrived <- take
			select {
			case <-g.pass:
			case <-ctx.Done():
			}
		}
		return handle(ctx, r)
	})
}

func waiting(s *Store) int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return s.batches.queued
}

// A take alone goes out at once. Those of its bucket that come meanwhile wait for it, and leave in one call, in the order in
// which they came; the limit that they share is in it once.
func TestTakesThatWaitLeaveTogether(t *testing.T) {
	g := newGate()
	srv := serve(t, storeservice.Config{Store: memory(t, nil)}, g.option())
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	limit := parseLimit(t, "10/1000h")
	var callers sync.WaitGroup
	var allowed atomic.Int64
	take := func(cost int64) {
		callers.Go(func() {
			ds, err := s.Take(t.Context(), []tidegate.Charge{{Rule: "r", Key: "k", Limit: limit, Cost: cost}}, nil)
			if err != nil {
				t.Error(err)
			} else if ds[0].Allowed {
				allowed.Add(cost)
			}
		})
	}
	take(1)
	if n := len((<-g.arrived).GetTakes()); n != 1 {
		t.Errorf("the first call has %d takes", n)
	}
	for i := range 5 {
		take(int64(i + 1))
		until(t, "it waits", func() bool { return waiting(s) == i+1 })
	}
	g.pass <- struct{}{}
	second := <-g.arrived
	var costs []int64
	for _, take := range second.GetTakes() {
		costs = append(costs, take.GetCharges()[0].GetCost())
	}
	if len(costs) != 5 || costs[0] != 1 || costs[4] != 5 || len(second.GetLimits()) != 1 {
		t.Errorf("the second call has the costs %v and %d limits", costs, len(second.GetLimits()))
	}
	g.pass <- struct{}{}
	callers.Wait()
	if n := allowed.Load(); n != 1+1+2+3 { // 9 of 10 are left: 1, 2 and 3 have room, 4 has not, and 5 has not
		t.Errorf("%d were admitted", n)
	}
}

// A bucket is in one call at a time, and takes of other buckets do not wait for it.
func TestOtherBucketsDoNotWait(t *testing.T) {
	g := newGate()
	srv := serve(t, storeservice.Config{Store: memory(t, nil)}, g.option())
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	var callers sync.WaitGroup
	for i := range maxInFlight {
		callers.Go(func() { _, _ = s.Take(t.Context(), []tidegate.Charge{newCharge(t, strconv.Itoa(i), "10/s", 1)}, nil) })
		<-g.arrived // before any has passed
	}
	callers.Go(func() { _, _ = s.Take(t.Context(), []tidegate.Charge{newCharge(t, "more", "10/s", 1)}, nil) })
	until(t, "one more waits for a place", func() bool { return waiting(s) == 1 })
	for range maxInFlight + 1 {
		g.pass <- struct{}{}
	}
	callers.Wait()
}

// A caller who leaves is answered at once, and what was still waiting for it is not sent.
func TestCallersWhoLeave(t *testing.T) {
	g := newGate()
	m := memory(t, nil)
	srv := serve(t, storeservice.Config{Store: m}, g.option())
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	c := newCharge(t, "k", "10/1000h", 1)
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = s.Take(t.Context(), []tidegate.Charge{c}, nil) })
	<-g.arrived
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, []tidegate.Charge{c}, nil)
		left <- err
	}()
	until(t, "it waits", func() bool { return waiting(s) == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.pass <- struct{}{}
	callers.Wait()
	g.pass <- struct{}{}
	c.Cost = 0
	if d := mustTake(t, s, c)[0]; d.Remaining != 9 {
		t.Errorf("%d are left: the one who left was charged", d.Remaining)
	}
}

// One take that is not valid fails alone.
func TestABadTakeFailsAlone(t *testing.T) {
	g := newGate()
	srv := serve(t, storeservice.Config{Store: memory(t, nil)}, g.option())
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	good := newCharge(t, "k", "10/1000h", 1)
	bad, policy := good, good
	bad.Limit = &tidegate.Limit{Rate: 10, Per: time.Second, Slices: 3}
	policy.OnFailure = tidegate.FailurePolicy{Action: 77}
	var callers sync.WaitGroup
	var failed, decided atomic.Int64
	for i, c := range []tidegate.Charge{good, bad, policy, good} {
		callers.Go(func() {
			_, err := s.Take(t.Context(), []tidegate.Charge{c}, nil)
			switch {
			case err == nil:
				decided.Add(1)
			case errors.Is(err, tidegate.ErrStore):
				t.Error(err)
			default:
				failed.Add(1)
			}
		})
		if i == 0 {
			<-g.arrived
		} else {
			until(t, "it waits", func() bool { return waiting(s) == i })
		}
	}
	for range 2 {
		g.pass <- struct{}{}
	}
	callers.Wait()
	if decided.Load() != 2 || failed.Load() != 2 {
		t.Errorf("%d were decided, %d failed", decided.Load(), failed.Load())
	}
}

// However many ask, a call is bounded in takes and in bytes, and all are answered.
func TestCallsAreBounded(t *testing.T) {
	var most, bytes atomic.Int64
	spy := grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if take, ok := r.(*storev1.TakeRequest); ok {
			size := 0
			for _, x := range take.GetTakes() {
				for _, c := range x.GetCharges() {
					size += len(c.GetKey())
				}
			}
			most.Store(max(most.Load(), int64(len(take.GetTakes()))))
			bytes.Store(max(bytes.Load(), int64(size)))
		}
		return handle(ctx, r)
	})
	srv := serve(t, storeservice.Config{Store: memory(t, nil)}, spy)
	s := open(t, srv.addr, &Config{Timeout: time.Minute})
	limit := parseLimit(t, "1000000/s")
	long := string(make([]byte, 10_000))
	var callers sync.WaitGroup
	for i := range 3000 {
		callers.Go(func() {
			c := tidegate.Charge{Rule: "r", Key: strconv.Itoa(i % 3), Limit: limit, Cost: 1}
			if i%30 == 0 {
				c.Key += long
			}
			if _, err := s.Take(t.Context(), []tidegate.Charge{c}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if most.Load() > maxTakes || bytes.Load() > batchBytes || most.Load() < 2 {
		t.Errorf("a call had %d takes, and one had keys of %d bytes", most.Load(), bytes.Load())
	}
}
