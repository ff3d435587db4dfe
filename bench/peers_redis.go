package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// The peers in Redis beside redis_rate. Each has the limit of the workload: ample, or scarce where all but the first take
// is to be refused; and each answers for its decisions: one that is not what the workload is about ends the run.

// decider makes a decision on a key.
type decider func(ctx context.Context, key string) (allowed bool, err error)

// gcraScript is what one writes when one writes it oneself: the generic cell rate algorithm in floating-point numbers, on
// the server's clock. It is told the µs between two tokens and how many there are at once.
const gcraScript = `
local t = redis.call('TIME')
local now = t[1] * 1e6 + t[2]
local gap, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or now)
if full < now then full = now end
full = full + gap
if full - gap * burst > now then return {0, 0} end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return {1, math.floor(burst - (full - now) / gap)}`

// gcraArgs are the arguments of a limit that refuses nothing at the speeds that it reaches, and of scarce. Floating-point
// numbers of µs cannot count the tenth of one that lies between two tokens of ample.
func gcraArgs(refused bool) []string {
	if refused {
		return []string{"3600000000", "1"}
	}
	return []string{"1", "1000000"}
}

func redisPeers(addr string, keys int, refused bool) []contender {
	peer := func(name string, open func(context.Context) (decider, func(), error)) contender {
		return contender{name, func(ctx context.Context) (func(context.Context, int, int) error, func(), error) {
			decide, done, err := open(ctx)
			if err != nil {
				return nil, nil, err
			}
			names := keysOf(keys)
			if refused {
				names = []string{"refused"}
				if _, err := decide(ctx, names[0]); err != nil {
					done()
					return nil, nil, err
				}
			}
			return func(ctx context.Context, caller, n int) error {
				allowed, err := decide(ctx, names[spread(caller, n, keys)])
				if err != nil {
					return err
				}
				return expect(allowed, refused)
			}, done, nil
		}}
	}
	return []contender{
		peer("go-redis, a script", func(context.Context) (decider, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			script, args := redis.NewScript(gcraScript), gcraArgs(refused)
			return func(ctx context.Context, key string) (bool, error) {
				n, err := script.Run(ctx, client, []string{"gcra:" + key}, args[0], args[1]).Int64Slice()
				return err == nil && n[0] == 1, err
			}, func() { _ = client.Close() }, nil
		}),
		peer("go-redis AutoPipeline, the script", func(ctx context.Context) (decider, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			sha, err := client.ScriptLoad(ctx, gcraScript).Result()
			if err != nil {
				return nil, nil, err
			}
			pipeline, err := client.AutoPipeline()
			if err != nil {
				return nil, nil, err
			}
			args := gcraArgs(refused)
			return func(ctx context.Context, key string) (bool, error) {
				n, err := pipeline.EvalSha(ctx, sha, []string{"gcra:" + key}, args[0], args[1]).Int64Slice()
				return err == nil && n[0] == 1, err
			}, func() { _ = client.Close() }, nil
		}),
		peer("rueidis, the script", func(context.Context) (decider, func(), error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
			if err != nil {
				return nil, nil, err
			}
			script, args := rueidis.NewLuaScript(gcraScript), gcraArgs(refused)
			return func(ctx context.Context, key string) (bool, error) {
				n, err := script.Exec(ctx, client, []string{"gcra:" + key}, args).AsIntSlice()
				return err == nil && n[0] == 1, err
			}, client.Close, nil
		}),
		peer("throttled", func(context.Context) (decider, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			store, err := throttledredis.NewCtx(client, "throttled:")
			if err != nil {
				return nil, nil, err
			}
			return throttledDecider(store, refused, func() { _ = client.Close() })
		}),
		peer("ulule/limiter", func(context.Context) (decider, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			store, err := ululeredis.NewStore(client)
			if err != nil {
				return nil, nil, err
			}
			window := ulule.Rate{Period: time.Hour, Limit: 1 << 50}
			if refused {
				window.Limit = 1
			}
			l := ulule.New(store, window)
			return func(ctx context.Context, key string) (bool, error) {
				c, err := l.Get(ctx, key)
				return !c.Reached, err
			}, func() { _ = client.Close() }, nil
		}),
	}
}

// throttledDecider is throttled over one of its stores. It compares and swaps, and gives up after ten times that somebody
// else was faster; here it goes on, so that it decides as all others do. In memory it reads the clock before the state: the
// burst is ten seconds of the rate, so that a caller who is held up in between is not refused.
func throttledDecider(store throttled.GCRAStoreCtx, refused bool, done func()) (decider, func(), error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(10_000_000), MaxBurst: 100_000_000 - 1}
	if refused {
		quota = throttled.RateQuota{MaxRate: throttled.PerHour(1)}
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, nil, err
	}
	l.SetMaxCASAttemptsLimit(1 << 30)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, done, nil
}
