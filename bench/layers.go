package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/redisstore"
)

// Which client carries redisstore's commands best: the store is the same, and a hook hands each command to another client
// in place of its own.

// carrier is a hook that sends a command otherwise.
type carrier struct {
	send func(ctx context.Context, args []any) (any, error)
}

func (c carrier) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c carrier) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c carrier) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		told, ok := cmd.(interface{ SetVal(val any) })
		if !ok {
			return next(ctx, cmd)
		}
		v, err := c.send(ctx, cmd.Args())
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		told.SetVal(v)
		return nil
	}
}

// layers are the same store over three clients.
func layers(addr string) []workload {
	var ws []workload
	for _, w := range []struct{ callers, keys int }{{1, 1}, {64, 1}, {64, 10_000}, {256, 10_000}} {
		over := func(name string, open func() (carrier, func(), error)) contender {
			return contender{"over " + name, func(context.Context) (func(context.Context, int, int) error, func(), error) {
				cfg := &redisstore.Config{Timeout: 10 * time.Second}
				done := func() {}
				if open != nil {
					c, closing, err := open()
					if err != nil {
						return nil, nil, err
					}
					cfg.Hooks, done = []redis.Hook{c}, closing
				}
				s, err := redisstore.Open("redis://"+addr, cfg)
				if err != nil {
					return nil, nil, err
				}
				l, err := tidegate.New(s, ample, nil)
				if err != nil {
					return nil, nil, err
				}
				names := keysOf(w.keys)
				return func(ctx context.Context, caller, n int) error {
					d, err := l.Allow(ctx, names[spread(caller, n, w.keys)])
					if err != nil {
						return err
					}
					return expect(d.Allowed, false)
				}, func() { _ = s.Close(); done() }, nil
			}}
		}
		ws = append(ws, workload{
			name:    fmt.Sprintf("client layer, %d callers, %d keys", w.callers, w.keys),
			id:      fmt.Sprintf("Layer/callers=%d/keys=%d", w.callers, w.keys),
			callers: w.callers, optional: true,
			contenders: []contender{
				over("go-redis", nil),
				over("go-redis AutoPipeline", func() (carrier, func(), error) { return overAutoPipeline(addr) }),
				over("rueidis", func() (carrier, func(), error) { return overRueidis(addr) }),
			},
		})
	}
	return ws
}

func overAutoPipeline(addr string) (carrier, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	pipeline, err := client.AutoPipeline()
	if err != nil {
		return carrier{}, nil, err
	}
	return carrier{func(ctx context.Context, args []any) (any, error) {
		return pipeline.Do(ctx, args...).Result()
	}}, func() { _ = client.Close() }, nil
}

func overRueidis(addr string) (carrier, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, DisableRetry: true})
	if err != nil {
		return carrier{}, nil, err
	}
	return carrier{func(ctx context.Context, args []any) (any, error) {
		texts := make([]string, len(args))
		for i, a := range args {
			if s, ok := a.(string); ok {
				texts[i] = s
			} else {
				texts[i] = fmt.Sprint(a)
			}
		}
		v, err := client.Do(ctx, client.B().Arbitrary(texts...).Build()).ToAny()
		if err != nil {
			return nil, redisError(err)
		}
		return v, nil
	}}, client.Close, nil
}

// redisError is an error of a server, as redisstore knows it from go-redis: by its text.
func redisError(err error) error {
	if re, ok := rueidis.IsRedisErr(err); ok {
		return serverError(re.Error())
	}
	return err
}

type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as an error that the server answered.
func (serverError) RedisError() {}
