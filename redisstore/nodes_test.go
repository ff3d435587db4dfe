package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// trips counts what goes out: pipelines, and what is sent alone.
type trips struct{ alone, pipelines, piped atomic.Int64 }

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.alone.Add(1)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pipelines.Add(1)
		h.piped.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// crowd lets callers take from keys of their own, and returns how many takes were allowed and what else came of them.
func crowd(s *Store, limit *tidegate.Limit, callers, each int) (allowed int64, errs []error) {
	var n atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for range each {
				c := tidegate.Charge{Rule: "crowd", Key: fmt.Sprint(caller), Limit: limit, Cost: 1}
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				} else if ds[0].Allowed {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return n.Load(), errs
}

// Callers of different slots share pipelines, one to a node, and each is told of its own key.
func TestClusterPipelines(t *testing.T) {
	clu := redistest.StartCluster(t)
	var h trips
	s := openStore(t, clu.URL(), &Config{Hooks: []redis.Hook{&h}, Timeout: 20 * time.Second})
	limit := parseLimit(t, "20/1000h")
	const callers, each = 120, 30
	allowed, errs := crowd(s, limit, callers, each)
	if len(errs) > 0 || allowed != callers*20 {
		t.Errorf("%d were allowed, not %d of each key: %v", allowed, 20, errs)
	}
	t.Logf("%d alone, %d in %d pipelines", h.alone.Load(), h.piped.Load(), h.pipelines.Load())
	if h.piped.Load() < callers*each/2 || h.piped.Load() < 4*h.pipelines.Load() {
		t.Errorf("%d commands went alone and %d in %d pipelines: want most in few", h.alone.Load(), h.piped.Load(), h.pipelines.Load())
	}
	for _, n := range clu.Nodes {
		command(t, n, "SCRIPT", "FLUSH")
	}
	if _, errs := crowd(s, limit, callers, 2); len(errs) > 0 {
		t.Errorf("after the scripts were forgotten: %v", errs)
	}
	if len(s.nodes.pipes) != len(clu.Nodes) {
		t.Errorf("%d pipes to %d nodes", len(s.nodes.pipes), len(clu.Nodes))
	}
	for _, p := range s.nodes.pipes { // whose senders end after the callers are answered
		eventually(t, 5*time.Second, "nothing is left behind in a pipe", func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.waiting) > 0 || p.inFlight > 0 || p.senders > 0 {
				return fmt.Errorf("%d waiting, %d in flight, %d senders", len(p.waiting), p.inFlight, p.senders)
			}
			return nil
		})
	}
}

// A node that does not answer holds up nobody else's takes, and its own callers are told within their time.
func TestClusterPipelineOfASilentNode(t *testing.T) {
	clu := redistest.StartCluster(t)
	s := openStore(t, clu.URL(), &Config{Timeout: 500 * time.Millisecond})
	limit := parseLimit(t, "1000000/1000h")
	if _, errs := crowd(s, limit, 30, 1); len(errs) > 0 {
		t.Fatal(errs)
	}
	const silent = 0
	onSilent := map[string]bool{}
	for i := range 30 {
		c := tidegate.Charge{Rule: "crowd", Key: fmt.Sprint(i), Limit: limit}
		onSilent[c.Key] = len(storedKeys(t, clu.Nodes[silent], s.bucketKey(&c, s.tag(&c), 0))) > 0
	}
	clu.Nodes[silent].Pause()
	defer clu.Nodes[silent].Resume()
	var wg sync.WaitGroup
	for key, held := range onSilent {
		wg.Go(func() {
			for range 3 {
				c := tidegate.Charge{Rule: "crowd", Key: key, Limit: limit, Cost: 1}
				start := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				_, err := s.Take(ctx, []tidegate.Charge{c}, nil)
				cancel()
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("%s was told after %v", key, took)
				}
				if (err != nil) != held {
					t.Errorf("%s: %v, and whether it is on the silent node: %v", key, err, held)
				}
			}
		})
	}
	wg.Wait()
}
