package main

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	throttledmemory "github.com/throttled/throttled/v2/store/memstore"
)

// The peers in memory beside golang.org/x/time/rate, with a limit that refuses nothing.

func memoryPeers(keys int) []contender {
	peer := func(name string, open func() (decider, func(), error)) contender {
		return contender{name, func(context.Context) (func(context.Context, int, int) error, func(), error) {
			decide, done, err := open()
			if err != nil {
				return nil, nil, err
			}
			check := func(ctx context.Context, key string) error {
				allowed, err := decide(ctx, key)
				if err != nil {
					return err
				}
				return expect(allowed, false)
			}
			name := func(_, _ int) string { return "k" }
			if keys > 1 {
				callers := zipfians()
				name = func(caller, n int) string { return callers[caller].at(n) }
			}
			return func(ctx context.Context, caller, n int) error {
				for i := range together {
					if err := check(ctx, name(caller, n+i)); err != nil {
						return err
					}
				}
				return nil
			}, done, nil
		}}
	}
	return []contender{
		peer("sethvargo/go-limiter", func() (decider, func(), error) {
			store, err := memorystore.New(&memorystore.Config{Tokens: 1 << 50, Interval: time.Hour})
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context, key string) (bool, error) {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok, err
			}, func() { _ = store.Close(context.Background()) }, nil
		}),
		peer("throttled", func() (decider, func(), error) {
			store, err := throttledmemory.NewCtx(2_000_000)
			if err != nil {
				return nil, nil, err
			}
			return throttledDecider(store, false, func() {})
		}),
	}
}
