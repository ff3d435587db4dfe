package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/redisstore"
)

// hotKeyWithLeases is one key that one caller asks for as fast as it can.
func hotKeyWithLeases(addr string) workload {
	return workload{
		name: "hot key with leases, 1 caller", id: "RedisLease/callers=1", callers: 1,
		contenders: []contender{tidegateLease(addr), redisRate(addr, redis_rate.PerSecond(10_000_000), 1, 1)},
	}
}

func tidegateLease(addr string) contender {
	return contender{"tidegate", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		s, err := redisstore.Open("redis://"+addr, &redisstore.Config{Timeout: 10 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		limit := tidegate.Limit{Rate: 10_000_000, Per: time.Second, Burst: 1_000_000, Lease: 50 * time.Millisecond}
		l, err := tidegate.New(s, limit, nil)
		if err != nil {
			return nil, nil, err
		}
		key := keysOf(1)[0]
		return func(ctx context.Context, _, _ int) error {
			d, err := l.Allow(ctx, key)
			if err == nil && !d.Allowed {
				err = errRefused
			}
			return err
		}, func() { _ = s.Close() }, nil
	}}
}
