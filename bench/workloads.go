package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/redisstore"
)

// The limit that refuses nothing, and the one that refuses everything but the first.
var (
	ample  = tidegate.Limit{Rate: 10_000_000, Per: time.Second, Burst: 1_000_000}
	scarce = tidegate.Limit{Rate: 1, Per: time.Hour, Burst: 1}
)

var (
	errRefused = errors.New("refused, where nothing should be")
	errAllowed = errors.New("allowed, where nothing should be")
)

// expect holds a decision to what the workload is about.
func expect(allowed, refused bool) error {
	switch {
	case refused && allowed:
		return errAllowed
	case !refused && !allowed:
		return errRefused
	}
	return nil
}

func workloads(addr string) []workload {
	var ws []workload
	for _, w := range []struct{ callers, keys int }{{1, 1}, {64, 1}, {256, 1}, {64, 10_000}, {256, 10_000}} {
		ws = append(ws, workload{
			name:       fmt.Sprintf("%d callers, %d keys, strict", w.callers, w.keys),
			id:         fmt.Sprintf("Redis/callers=%d/keys=%d", w.callers, w.keys),
			callers:    w.callers,
			peers:      redisPeers(addr, w.keys, false),
			contenders: []contender{tidegateRedis(addr, ample, w.keys, false), redisRate(addr, redis_rate.PerSecond(10_000_000), w.keys, 1)},
		})
	}
	ws = append(append(ws, layers(addr)...),
		workload{
			name: "1 caller, a refused key", id: "RedisRefused/callers=1", callers: 1, peers: redisPeers(addr, 1, true),
			contenders: []contender{tidegateRedis(addr, scarce, 1, true), redisRate(addr, redis_rate.PerHour(1), 1, 1)},
		},
		workload{
			name: "64 callers, user and tenant and global at once", id: "RedisThreeLimits/callers=64", callers: 64,
			contenders: []contender{threeLimits(addr), redisRate(addr, redis_rate.PerSecond(10_000_000), 1000, 3)},
		},
		hotKeyWithLeases(addr),
	)
	return append(ws, memoryWorkloads()...)
}

// keyNames are what keysOf made, by their number.
var keyNames sync.Map

// keysOf names keys of 16 bytes; the list is everybody's.
func keysOf(n int) []string {
	if names, ok := keyNames.Load(n); ok {
		return names.([]string)
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%011d", i)
	}
	keyNames.Store(n, keys)
	return keys
}

// spread picks keys evenly, the same ones for every contender.
func spread(caller, n, keys int) int {
	h := uint64(caller)<<32 + uint64(n)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int((h ^ h>>31) % uint64(keys))
}

func tidegateRedis(addr string, limit tidegate.Limit, keys int, refused bool) contender {
	return contender{"tidegate", func(ctx context.Context) (func(context.Context, int, int) error, func(), error) {
		s, err := redisstore.Open("redis://"+addr, &redisstore.Config{Timeout: 10 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		l, err := tidegate.New(s, limit, nil)
		if err != nil {
			return nil, nil, err
		}
		names := keysOf(keys)
		if refused { // a key that no other workload asks for, and the one take that passes
			names = []string{"refused"}
			if _, err := l.Allow(ctx, names[0]); err != nil {
				return nil, nil, err
			}
		}
		return func(ctx context.Context, caller, n int) error {
			d, err := l.Allow(ctx, names[spread(caller, n, keys)])
			if err != nil {
				return err
			}
			return expect(d.Allowed, refused)
		}, func() { _ = s.Close() }, nil
	}}
}

// redisRate makes so many calls for a decision, one for each of its limits.
func redisRate(addr string, limit redis_rate.Limit, keys, limits int) contender {
	refused := limit.Rate == 1
	return contender{"redis_rate", func(ctx context.Context) (func(context.Context, int, int) error, func(), error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		l := redis_rate.NewLimiter(client)
		names := keysOf(keys)
		if refused {
			names = []string{"refused"}
			if _, err := l.Allow(ctx, names[0], limit); err != nil {
				return nil, nil, err
			}
		}
		return func(ctx context.Context, caller, n int) error {
			for i := range limits {
				name := names[spread(caller, n, keys)]
				if i > 0 {
					name = names[i]
				}
				r, err := l.Allow(ctx, name, limit)
				if err == nil {
					err = expect(r.Allowed > 0, refused)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, func() { _ = client.Close() }, nil
	}}
}

func threeLimits(addr string) contender {
	return contender{"tidegate", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		s, err := redisstore.Open("redis://"+addr, &redisstore.Config{Timeout: 10 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		names := keysOf(1000)
		limit := ample
		return func(ctx context.Context, caller, n int) error {
			charges := []tidegate.Charge{
				{Rule: "user", Key: names[spread(caller, n, len(names))], Limit: &limit, Cost: 1},
				{Rule: "tenant", Key: names[1], Limit: &limit, Cost: 1},
				{Rule: "global", Limit: &limit, Cost: 1},
			}
			ds, err := s.Take(ctx, charges, make([]tidegate.Decision, 0, 3))
			if err == nil && !tidegate.Combine(charges, ds).Allowed {
				err = errRefused
			}
			return err
		}, func() { _ = s.Close() }, nil
	}}
}
