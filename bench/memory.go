package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"golang.org/x/time/rate"
)

// together is how many decisions in memory a call makes: what is around them would be a good part of the figure otherwise.
const together = 100

// memoryWorkloads are those that no server has a part in.
func memoryWorkloads() []workload {
	return []workload{
		{
			name: "memory, one limiter, one core", id: "Memory/callers=1/keys=1", callers: 1, procs: 1, together: together,
			contenders: []contender{memoryKey(), xRate()}, peers: memoryPeers(1),
		},
		{
			name: "memory, one limiter, a caller a core", id: "Memory/callers=2/keys=1", callers: 2, together: together,
			contenders: []contender{memoryKey(), xRate()}, peers: memoryPeers(1),
		},
		{
			name: "memory, 1M keys zipf, one core", id: "Memory/callers=1/keys=1000000", callers: 1, procs: 1, together: together,
			contenders: []contender{memory(), xRateMap()}, peers: memoryPeers(1_000_000),
		},
		{
			name: "memory, 1M keys zipf, a caller a core", id: "Memory/callers=2/keys=1000000", callers: 2, together: together,
			contenders: []contender{memory(), xRateMap()}, peers: memoryPeers(1_000_000),
		},
	}
}

// The limit that refuses nothing, as fast as one may ask, for each of the two.
var (
	boundless  = tidegate.Limit{Rate: 1_000_000_000, Per: time.Second, Burst: 1_000_000_000}
	xBoundless = func() *rate.Limiter { return rate.NewLimiter(1_000_000_000, 1_000_000_000) }
)

// drawn is how many keys a caller asks for before it begins anew.
const drawn = 1 << 20

// questions are the keys that a caller asks for, one after the other: texts of 16 bytes as they come in requests, of which
// no two share their bytes.
type questions string

func (q questions) at(n int) string {
	at := n % drawn * 16
	return string(q[at : at+16])
}

// zipfians draws the questions of two callers beforehand, so that no time is spent on drawing them.
var zipfians = sync.OnceValue(func() (callers [2]questions) {
	for i := range callers {
		z := rand.NewZipf(rand.New(rand.NewPCG(uint64(i), 1)), 1.1, 1, 1_000_000-1)
		var text strings.Builder
		for range drawn {
			fmt.Fprintf(&text, "user:%011d", z.Uint64())
		}
		callers[i] = questions(text.String())
	}
	return callers
})

// memory is a limiter that is asked for keys.
func memory() contender {
	return contender{"tidegate", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		s := memstore.New(nil)
		l, err := tidegate.New(s, boundless, nil)
		if err != nil {
			return nil, nil, err
		}
		callers := zipfians()
		return func(ctx context.Context, caller, n int) error {
			for i := range together {
				if d, err := l.Allow(ctx, callers[caller].at(n+i)); err != nil || !d.Allowed {
					return errors.Join(err, errRefused)
				}
			}
			return nil
		}, func() { _ = s.Close() }, nil
	}}
}

// memoryKey is the view of one key.
func memoryKey() contender {
	return contender{"tidegate", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		s := memstore.New(nil)
		l, err := tidegate.New(s, boundless, nil)
		if err != nil {
			return nil, nil, err
		}
		k := l.Key("k")
		return func(ctx context.Context, _, _ int) error {
			for range together {
				if d, err := k.Allow(ctx); err != nil || !d.Allowed {
					return errors.Join(err, errRefused)
				}
			}
			return nil
		}, func() { _ = s.Close() }, nil
	}}
}

func xRate() contender {
	return contender{"x/time/rate", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		l := xBoundless()
		return func(context.Context, int, int) error {
			for range together {
				if !l.Allow() {
					return errRefused
				}
			}
			return nil
		}, func() {}, nil
	}}
}

// xRateMap is what one writes around x/time/rate: a map with a mutex.
func xRateMap() contender {
	return contender{"x/time/rate in a map", func(context.Context) (func(context.Context, int, int) error, func(), error) {
		m := limiters{byKey: map[string]*rate.Limiter{}}
		callers := zipfians()
		return func(_ context.Context, caller, n int) error {
			for i := range together {
				if !m.of(callers[caller].at(n + i)).Allow() {
					return errRefused
				}
			}
			return nil
		}, func() {}, nil
	}}
}

type limiters struct {
	mu    sync.Mutex
	byKey map[string]*rate.Limiter
}

func (m *limiters) of(key string) *rate.Limiter {
	m.mu.Lock()
	l := m.byKey[key]
	if l == nil {
		l = xBoundless()
		m.byKey[key] = l
	}
	m.mu.Unlock()
	return l
}

// heapWork is the name of the measurement of what a key takes of the heap.
const heapWork = "memory, heap of 1M keys"

// heap prints what a key takes of the heap: the bytes that are in use after 1M keys of 16 bytes were asked for once, the
// key's own bytes where they are kept, over those before.
func heap(out io.Writer) error {
	const keys = 1_000_000
	ours, err := heapOf(keys, func() (func(string) error, func(), error) {
		s := memstore.New(nil)
		l, err := tidegate.New(s, perKey, nil)
		if err != nil {
			return nil, nil, err
		}
		return func(key string) error {
			_, err := l.Allow(context.Background(), key)
			return err
		}, func() { _ = s.Close() }, nil
	})
	if err != nil {
		return err
	}
	theirs, err := heapOf(keys, func() (func(string) error, func(), error) {
		m := limiters{byKey: map[string]*rate.Limiter{}}
		return func(key string) error {
			m.of(key).Allow()
			return nil
		}, func() {}, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s: tidegate %.1f bytes a key, x/time/rate in a map %.1f; ours is %.2f× of it\n",
		heapWork, ours, theirs, ours/theirs)
	return nil
}

// perKey is a limit as keys have them, whose buckets are still in use when the heap is looked at.
var perKey = tidegate.Limit{Rate: 10, Per: time.Hour, Burst: 20}

// heapOf returns the bytes that each of so many keys adds to the heap.
func heapOf(keys int, open func() (ask func(key string) error, closing func(), err error)) (float64, error) {
	ask, closing, err := open()
	if err != nil {
		return 0, err
	}
	defer closing()
	before := inUse()
	for n := range keys {
		if err := ask(fmt.Sprintf("user:%011d", n)); err != nil {
			return 0, err
		}
	}
	added := float64(inUse()-before) / float64(keys)
	runtime.KeepAlive(ask)
	return added, nil
}

// inUse returns the bytes of the heap that are in use.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers and pools let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
