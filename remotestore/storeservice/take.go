package storeservice

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

func tooMany(takes, charges, limits int) error {
	return status.Errorf(codes.InvalidArgument, "%d takes with %d charges and %d limits in one call: at most %d takes, and %d of the others; send several calls",
		takes, charges, limits, MaxTakes, MaxCharges)
}

// Take implements [storev1.StoreServer].
func (s *Service) Take(ctx context.Context, r *storev1.TakeRequest) (*storev1.TakeResponse, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	takes := r.GetTakes()
	total := 0
	for _, t := range takes {
		total += len(t.GetCharges())
	}
	if len(takes) > MaxTakes || total > MaxCharges || len(r.GetLimits()) > MaxCharges {
		return nil, tooMany(len(takes), total, len(r.GetLimits()))
	}
	// All is read before anything is charged: what is not understood has not run.
	b := batch{store: s.cfg.Store, charges: make([][]tidegate.Charge, len(takes)), results: make([]*storev1.TakeResult, len(takes))}
	limits := s.limits.Read(r.GetLimits())
	room := make([]tidegate.Charge, 0, total)
	for i, t := range takes {
		from := len(room)
		room, err = wire.ReadCharges(room, t.GetCharges(), limits)
		switch {
		case errors.Is(err, wire.ErrPlace):
			return nil, status.Error(codes.InvalidArgument, err.Error())
		case err != nil:
			b.results[i] = &storev1.TakeResult{Failure: wire.Failure(err)}
		default:
			b.charges[i] = room[from:len(room):len(room)]
		}
	}
	b.run(ctx, min(s.cfg.Together, len(takes)))
	return &storev1.TakeResponse{Results: b.results}, nil
}

// batch is the takes of a call.
type batch struct {
	store   tidegate.Store
	charges [][]tidegate.Charge
	results []*storev1.TakeResult // set already where the take cannot be asked
	next    atomic.Int64
}

// run decides the takes, so many at once.
func (b *batch) run(ctx context.Context, together int) {
	if together <= 1 {
		b.work(ctx)
		return
	}
	var wg sync.WaitGroup
	panics := make(chan any, together)
	for range together {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
			}()
			b.work(ctx)
		})
	}
	wg.Wait()
	select {
	case p := <-panics:
		panic(p) // where the server catches it
	default:
	}
}

// work decides the takes that nobody else has begun with.
func (b *batch) work(ctx context.Context) {
	var room [4]tidegate.Decision
	for {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.charges) {
			return
		}
		if b.results[i] != nil {
			continue
		}
		decisions, err := b.store.Take(ctx, b.charges[i], room[:0])
		if err != nil {
			b.results[i] = &storev1.TakeResult{Failure: wire.Failure(err)}
			continue
		}
		b.results[i] = &storev1.TakeResult{Decisions: wire.Decisions(decisions)}
	}
}
