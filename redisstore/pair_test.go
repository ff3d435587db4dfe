package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// several enters takes of the buckets that are named into a dispatcher, whose sender is the test.
type several struct {
	t *testing.T
	s *Store
	d *dispatcher
}

func newSeveral(t *testing.T) *several {
	t.Helper()
	s := openStore(t, redistest.Start(t).URL(), &Config{Timeout: 20 * time.Second})
	return &several{t, s, &dispatcher{store: s, forming: 1}}
}

// enter does what take does with a take that has to wait, and returns its waiter.
func (x *several) enter(keys ...string) *waiter {
	x.t.Helper()
	limit := parseLimit(x.t, "1000000/365day fixed-window")
	charges := make([]tidegate.Charge, len(keys))
	for i, k := range keys {
		charges[i] = tidegate.Charge{Rule: "r", Key: k, Limit: limit, Cost: 1}
	}
	items := make([]item, len(charges))
	if err := x.s.fill(items, charges); err != nil {
		x.t.Fatal(err)
	}
	w := x.s.batches.newWaiter(items)
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	x.d.buckets.hold(w)
	x.d.enter(w)
	return w
}

// crowd enters as many takes as fill a batch, all of which need the buckets.
func (x *several) crowd(name string, keys ...string) {
	x.t.Helper()
	for i := 0; i < enough; i += 1 + len(keys) {
		x.enter(append([]string{fmt.Sprint(name, i)}, keys...)...)
	}
}

// form forms a batch, and returns what is in it.
func (x *several) form() []*waiter {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	batch, _ := x.d.form(nil, nil)
	return batch
}

// end ends a batch.
func (x *several) end(batch []*waiter) {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	for _, w := range batch {
		x.d.free(w)
	}
}

// Takes that fill a batch do not wait for the one that has a bucket of theirs, but for one of two; fewer do.
func TestFullBatchesOverlap(t *testing.T) {
	x := newSeveral(t)
	x.enter("a", "hot")
	first := x.form()
	x.enter("b", "hot")
	if few := x.form(); len(first) != 1 || len(few) != 0 {
		t.Fatalf("%d takes left, and %d of the same bucket after them", len(first), len(few))
	}
	x.crowd("c", "hot")
	second := x.form()
	if len(second) < enough/2-1 {
		t.Fatalf("%d takes left of those that fill a batch", len(second))
	}
	x.crowd("d", "hot")
	if third := x.form(); len(third) != 0 {
		t.Fatalf("%d takes of a bucket that is in two batches left", len(third))
	}
	x.end(first)
	third := x.form()
	if len(third) == 0 {
		t.Error("nothing left when one of two batches had ended")
	}
	x.end(third) // before the one that it overlaps
	x.end(second)
	for batch := x.form(); len(batch) > 0; batch = x.form() {
		x.end(batch)
	}
	if d := x.d; len(d.ready)+len(d.buckets.named)+d.eager+d.queued > 0 {
		t.Errorf("%d are ready, %d buckets held, %d eager, %d queued", len(d.ready), len(d.buckets.named), d.eager, d.queued)
	}
}

// Who waits for a bucket is overtaken by one batch, however many there are who could leave before.
func TestNobodyIsOvertakenTwice(t *testing.T) {
	x := newSeveral(t)
	round := func(n int) { // of takes that all wait for the one bucket, and among which there is one of the other
		x.enter(fmt.Sprint(n), "one")
		x.enter("other", "one")
		x.crowd(fmt.Sprint(n, "."), "one")
	}
	x.enter("other", "one")
	flying := [][]*waiter{x.form()}
	x.enter("first", "one") // from now on that is where most wait
	passed := x.enter("other")
	overtaken := 0
	for n := range 20 {
		round(n + 1)
		batch := x.form()
		if slices.Contains(batch, passed) {
			return
		}
		if slices.ContainsFunc(batch, func(w *waiter) bool { return w.items[0].key == passed.items[0].key }) {
			overtaken++
		}
		flying = append(flying, batch)
		x.end(flying[0])
		flying = flying[1:]
	}
	t.Errorf("it waits still, after %d batches that left with its bucket", overtaken)
}

// gate is a hook that counts the scripts that are under way, and holds them until it is opened.
type gate struct {
	mu       sync.Mutex
	now, top int
	open     chan struct{}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		g.mu.Lock()
		g.now++
		g.top = max(g.top, g.now)
		g.mu.Unlock()
		<-g.open
		err := next(ctx, cmd)
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
		return err
	}
}

// Batches that overlap charge what they allow: of a window that many share with a second one, exactly what it holds passes.
func TestOverlappingBatchesKeepToTheLimit(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	s := openStore(t, redistest.Start(t).URL(), &Config{Timeout: 30 * time.Second, Hooks: []redis.Hook{g}})
	own, hot := parseLimit(t, "1000000/365day fixed-window"), parseLimit(t, "700/365day fixed-window")
	const callers, each = 2 * enough, 3
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed, left := 0, map[int64]bool{}
	for c := range callers {
		wg.Go(func() {
			for n := range each {
				charges := []tidegate.Charge{
					{Rule: "own", Key: fmt.Sprint(c, n), Limit: own, Cost: 1},
					{Rule: "hot", Key: "k", Limit: hot, Cost: 1},
				}
				ds, err := s.Take(context.Background(), charges, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if !tidegate.Combine(charges, ds).Allowed {
					continue
				}
				mu.Lock()
				passed++
				if left[ds[1].Remaining] {
					t.Errorf("two takes were told that %d remain", ds[1].Remaining)
				}
				left[ds[1].Remaining] = true
				mu.Unlock()
			}
		})
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		g.mu.Lock()
		top := g.top
		g.mu.Unlock()
		if top >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("no batch left while another had the bucket that all have")
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(g.open)
	wg.Wait()
	if passed != 700 {
		t.Errorf("%d passed, not 700", passed)
	}
	atRest(t, s)
}
