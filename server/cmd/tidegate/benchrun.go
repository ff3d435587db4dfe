package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/tidegate-go/tidegate"
)

const (
	// benchRule is the rule of all buckets of all runs; their keys begin with the run's id.
	benchRule = "tidegate-bench"
	// errorPause is how long a caller waits after an error, so that a server that refuses connections is not drowned in them.
	errorPause = 10 * time.Millisecond
	// afterPatience bounds what is asked of the store before and after the run, a call for each key.
	afterPatience = time.Minute
	afterCallers  = 64
	maxLatency    = time.Minute
	maxCauses     = 3
)

// benchRun is one run: callers that take at a store in a closed loop.
type benchRun struct {
	store   tidegate.Store
	limit   *tidegate.Limit
	id      string
	keys    []string
	callers int
	prefill int64 // what each bucket is charged before the run, so that it is never full during it; 0: nothing

	touched bool      // whether there may be buckets
	began   moment    // when the store was first asked
	storeAt time.Time // what its clock said then
	primed  []reading // of each bucket, once it was charged its prefill
	started time.Time
	shards  []latencies
	total   tally
}

// moment is when a call was sent and when it was answered: the store decided in between.
type moment struct{ sent, answered time.Time }

// latencies are those of some of the callers.
type latencies struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram // ns
	_    [40]byte                // keeps two of them out of one cache line
}

// tally is what callers counted.
type tally struct {
	allowed, denied, errors int64
	sources                 [8]int64
	causes                  causes
	last                    time.Time // of the answers
	windowEnd               time.Time // before which the first decision's window does not end
}

func newBenchRun(store tidegate.Store, limit *tidegate.Limit, id string, keys, callers int) *benchRun {
	r := &benchRun{
		store: store, limit: limit, id: id, callers: callers,
		keys:   make([]string, keys),
		shards: make([]latencies, min(callers, 4*runtime.GOMAXPROCS(0))),
	}
	for i := range r.keys {
		r.keys[i] = fmt.Sprintf("%s/%d", id, i)
	}
	for i := range r.shards {
		r.shards[i].hist = hdrhistogram.New(1, int64(maxLatency), 3)
	}
	return r
}

func (r *benchRun) charge(key int, cost int64) []tidegate.Charge {
	return []tidegate.Charge{{Rule: benchRule, Key: r.keys[key], Limit: r.limit, Cost: cost}}
}

// prepare sees whether the store answers, and charges the prefill.
func (r *benchRun) prepare(ctx context.Context) error {
	r.began.sent = time.Now()
	at, err := r.store.Now(ctx)
	r.began.answered, r.storeAt = time.Now(), at
	if err != nil {
		return err
	}
	if r.prefill == 0 {
		_, err = r.store.Take(ctx, r.charge(0, 0), nil)
		return err
	}
	r.touched = true
	r.primed = make([]reading, len(r.keys))
	_, err = r.each(ctx, func(ctx context.Context, key int) (err error) {
		r.primed[key], err = r.read(ctx, key, r.prefill)
		return err
	})
	return err
}

// each calls f for every key, several at once, until one fails or time is up. It returns for how many f was done.
func (r *benchRun) each(ctx context.Context, f func(ctx context.Context, key int) error) (done int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, afterPatience, fmt.Errorf("it takes longer than %v", afterPatience))
	defer cancel()
	var next, ok atomic.Int64
	var once sync.Once
	var callers sync.WaitGroup
	for range min(afterCallers, len(r.keys)) {
		callers.Go(func() {
			for key := next.Add(1) - 1; key < int64(len(r.keys)) && ctx.Err() == nil; key = next.Add(1) - 1 {
				if e := f(ctx, int(key)); e != nil {
					once.Do(func() { err = e })
					cancel()
					return
				}
				ok.Add(1)
			}
		})
	}
	callers.Wait()
	if err == nil && int(ok.Load()) < len(r.keys) {
		err = context.Cause(ctx)
	}
	return int(ok.Load()), err
}

// drive lets the callers take for so long, or until ctx ends. What is under way then is waited for: it may have charged.
func (r *benchRun) drive(ctx context.Context, duration time.Duration) {
	r.touched = true
	tallies := make([]tally, r.callers)
	var callers sync.WaitGroup
	r.started = time.Now()
	end := r.started.Add(duration)
	for c := range r.callers {
		callers.Go(func() { tallies[c] = r.call(ctx, c, end) })
	}
	callers.Wait()
	r.total.last = r.started
	for i := range tallies {
		r.total.merge(&tallies[i])
	}
}

// call is one caller.
func (r *benchRun) call(ctx context.Context, c int, end time.Time) tally {
	var t tally
	calls := context.WithoutCancel(ctx)
	charges := r.charge(0, 1)
	decisions := make([]tidegate.Decision, 0, 1)
	l := &r.shards[c%len(r.shards)]
	for key := range walk(c, r.callers, len(r.keys)) {
		sent := time.Now()
		if !sent.Before(end) || ctx.Err() != nil {
			break
		}
		charges[0].Key = r.keys[key]
		ds, err := r.store.Take(calls, charges, decisions)
		t.last = time.Now()
		if err != nil {
			t.errors++
			t.causes.add(err, 1)
			sleep(ctx, errorPause)
			continue
		}
		l.mu.Lock()
		_ = l.hist.RecordValue(int64(min(t.last.Sub(sent), maxLatency)))
		l.mu.Unlock()
		if t.windowEnd.IsZero() {
			t.windowEnd = sent.Add(ds[0].ResetAfter)
		}
		t.sources[ds[0].Source]++
		if ds[0].Allowed {
			t.allowed++
		} else {
			t.denied++
		}
	}
	return t
}

// walk yields keys for ever: each caller begins at another and asks for all equally often, in an order that looks mixed.
func walk(caller, callers, keys int) func(yield func(key int) bool) {
	step := max(1, int(float64(keys)*0.618))
	for gcd(step, keys) != 1 {
		step--
	}
	return func(yield func(int) bool) {
		key := caller * keys / callers
		for yield(key) {
			key = (key + step) % keys
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// decided is how many decisions there are so far.
func (r *benchRun) decided() (n int64) {
	for i := range r.shards {
		l := &r.shards[i]
		l.mu.Lock()
		n += l.hist.TotalCount()
		l.mu.Unlock()
	}
	return n
}

// elapsed is from the start to the last answer.
func (r *benchRun) elapsed() time.Duration { return r.total.last.Sub(r.started) }

// reset deletes the buckets, and returns how many are left and why.
func (r *benchRun) reset() (left int, err error) {
	if !r.touched {
		return 0, nil
	}
	done, err := r.each(context.Background(), func(ctx context.Context, key int) error {
		return r.store.Reset(ctx, r.charge(key, 0))
	})
	return len(r.keys) - done, err
}

func (t *tally) merge(o *tally) {
	t.allowed += o.allowed
	t.denied += o.denied
	t.errors += o.errors
	for i, n := range o.sources {
		t.sources[i] += n
	}
	for _, c := range o.causes.first {
		t.causes.add(c.err, o.causes.count[c.key])
	}
	if o.last.After(t.last) {
		t.last = o.last
	}
	if !o.windowEnd.IsZero() && (t.windowEnd.IsZero() || o.windowEnd.Before(t.windowEnd)) {
		t.windowEnd = o.windowEnd
	}
}

// causes are errors by what they say, but for numbers, such as those of ports.
type causes struct {
	first []cause
	count map[string]int64
}

type cause struct {
	key string
	err error
}

var digits = regexp.MustCompile(`[0-9]+`)

func (c *causes) add(err error, n int64) {
	key := digits.ReplaceAllString(err.Error(), "#")
	if c.count == nil {
		c.count = map[string]int64{}
	}
	if _, known := c.count[key]; !known {
		if len(c.first) == maxCauses {
			key = c.first[maxCauses-1].key // and the last stands for all others
		} else {
			c.first = append(c.first, cause{key, err})
		}
	}
	c.count[key] += n
}
