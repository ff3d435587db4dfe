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
			if keys == 1 {
				return func(ctx context.Context, _, _ int) error { return check(ctx, "k") }, done, nil
			}
			callers := zipfians()
			return func(ctx context.Context, caller, n int) error {
				return check(ctx, callers[caller].at(n))
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
