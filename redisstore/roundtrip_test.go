package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
)

// distant answers the run script as a server does whose buckets are all full, a round trip later; nothing leaves the process.
type distant struct {
	trip time.Duration
	mu   sync.Mutex
	at   int // calls in flight
	most int
	n    int
}

func (d *distant) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *distant) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *distant) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		d.mu.Lock()
		d.at++
		d.n++
		d.most = max(d.most, d.at)
		d.mu.Unlock()
		time.Sleep(d.trip)
		d.mu.Lock()
		d.at--
		d.mu.Unlock()
		keys, _ := cmd.Args()[2].(int)
		reply := appendDouble(nil, 4102444800000000)
		for range keys {
			reply = appendDouble(reply, 0) // nothing is in use of any key
		}
		cmd.(once).SetVal(string(reply))
		return nil
	}
}

// A take waits for its own round trip and little more: half of all are answered within 1.3 of them, whether callers ask
// again at once or when they please, and a caller alone waits for one.
func TestWaitsForLittleMoreThanARoundTrip(t *testing.T) {
	const trip = time.Millisecond
	for _, v := range []struct {
		callers, keys int
		think         time.Duration
		p50           float64 // round trips
	}{
		{1, 1, 0, 1},
		{1, 1000, time.Millisecond, 1},
		{64, 10_000, 0, 1.3},
		{256, 10_000, 0, 1.3},
		{64, 10_000, 3 * time.Millisecond, 1.3},
		{256, 100, 3 * time.Millisecond, 2},
		{64, 1, 0, 2}, // callers of one key may fall into two groups that take turns
	} {
		t.Run(fmt.Sprintf("%d callers, %d keys, thinking for %v", v.callers, v.keys, v.think), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &distant{trip: trip}
				s, err := Open("redis://127.0.0.1:1", &Config{Hooks: []redis.Hook{server}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				l, err := tidegate.New(s, tidegate.Limit{Rate: 1_000_000, Per: time.Second}, nil)
				if err != nil {
					t.Fatal(err)
				}
				const each = 50
				all := make([][]time.Duration, v.callers)
				var wg sync.WaitGroup
				for caller := range v.callers {
					wg.Go(func() {
						r := rand.New(rand.NewPCG(uint64(caller), 7))
						for range each {
							if v.think > 0 {
								time.Sleep(time.Duration(r.Int64N(int64(v.think))))
							}
							start := time.Now()
							if d, err := l.Allow(t.Context(), fmt.Sprint(r.IntN(v.keys))); err != nil || !d.Allowed {
								t.Errorf("%+v, %v", d, err)
							}
							all[caller] = append(all[caller], time.Since(start))
						}
					})
				}
				wg.Wait()
				lasted := slices.Concat(all...)
				slices.Sort(lasted)
				p50, p99 := lasted[len(lasted)/2], lasted[len(lasted)*99/100]
				t.Logf("p50 %v, p99 %v, %d calls for %d takes, at most %d in flight", p50, p99, server.n, len(lasted), server.most)
				if float64(p50) > v.p50*float64(trip) {
					t.Errorf("half of the takes lasted for more than %v, at a round trip of %v", p50, trip)
				}
				if server.most > maxInFlight {
					t.Errorf("%d calls were in flight, at most %d may be", server.most, maxInFlight)
				}
			})
		})
	}
}
