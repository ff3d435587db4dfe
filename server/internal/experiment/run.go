package experiment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/server/internal/redisserver"
)

const (
	// maxConnections bounds the idle connections of a transport.
	maxConnections = 512
	// collectAt is by how many percent the heap, of a few MB, grows before it is collected in a run.
	collectAt = 1000
)

// stage is what a run plays on.
type stage struct {
	plan       *Plan
	schedule   *schedule
	redis      *redisserver.Server // nil unless it is ours
	downstream *downstream
	replicas   []*replica
	clients    []*http.Transport // of the load generator, one for each replica
}

// Ready returns an error if the store that runs need is not there, so that it is known before the first of them.
func Ready(ctx context.Context, plans []Plan) error {
	for i := range plans {
		switch p := &plans[i]; {
		case p.Scenario == Local:
		case p.Store == Auto:
			_, err := redisserver.Find()
			return err
		default:
			return probe(ctx, p.Store)
		}
	}
	return nil
}

// Run carries the run out. It ends early with ctx, whose error it returns, and leaves nothing behind. Begins is called as
// the clock starts; nil is nobody.
func (p *Plan) Run(ctx context.Context, begins func()) (*Trace, error) {
	st := &stage{plan: p}
	t, err := st.play(ctx, begins)
	if e := st.close(); err == nil {
		err = e
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", p.Scenario, p.Load, err)
	}
	return t, nil
}

func (st *stage) play(ctx context.Context, begins func()) (*Trace, error) {
	if err := st.build(ctx); err != nil {
		return nil, err
	}
	// What the build left is not the run's to pay for; and were each replica a process, none would stand still while the
	// garbage of all others is collected, several times a second.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	if begins != nil {
		begins()
	}
	a := newAnswers()
	start := time.Now()
	st.downstream.start.Store(&start)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	away := make(chan outage, 1)
	if st.plan.Scenario == Outage {
		go func() {
			o := st.fault(running, start)
			if o.err != nil {
				cancel() // what is left of the run tells nothing
			}
			away <- o
		}()
	} else {
		away <- outage{}
	}
	sent := drive(running, start, st.schedule, func(ctx context.Context, replica int, due time.Time) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		status, err := get(ctx, st.clients[replica], st.replicas[replica].url)
		a.saw(time.Since(due), status, err)
	})
	o := <-away
	if o.err != nil {
		return nil, o.err
	}
	return &Trace{plan: st.plan, sent: sent, answers: a, outage: o, arrivals: st.downstream.seen()}, nil
}

// build starts all that a run needs, and opens the connections.
func (st *stage) build(ctx context.Context) (err error) {
	p := st.plan
	st.schedule = newSchedule(p.Load, float64(p.Offered), p.Skew, p.Limit, p.Duration)
	url, limit := p.Store, p.Limit
	switch {
	case p.Scenario == Local:
		if limit, err = p.localLimit(); err != nil {
			return err
		}
	case p.Store == Auto:
		if st.redis, err = redisserver.Start(ctx); err != nil {
			return err
		}
		url = st.redis.URL()
	}
	connections := make([]int, p.Replicas)
	all := 0
	for i := range connections {
		connections[i] = st.connections(i)
		all += connections[i]
	}
	if st.downstream, err = newDownstream(ctx, all); err != nil {
		return err
	}
	prefix := "tidegate-bench-" + rand.Text()[:8] + ":" // no bucket and no table of anybody else's
	for i := range p.Replicas {
		store, err := p.openStore(url, prefix)
		if err != nil {
			return err
		}
		r, err := newReplica(ctx, store, limit, st.downstream.url, connections[i])
		if err != nil {
			return errors.Join(err, store.Close())
		}
		st.replicas = append(st.replicas, r)
		st.clients = append(st.clients, newTransport())
	}
	return st.warm(ctx, connections)
}

// connections is how many a replica needs: for what is under way while the store makes everybody wait, and some to spare.
func (st *stage) connections(replica int) int {
	underWay := st.schedule.busiest(replica) * (2 * deadline).Seconds()
	return min(maxConnections, 8+int(math.Ceil(underWay)))
}

// warm opens the connections. All replicas' to the downstream are opened at once, since they meet there.
func (st *stage) warm(ctx context.Context, connections []int) error {
	for i, r := range st.replicas {
		if err := openConnections(ctx, st.clients[i], r.url, connections[i]); err != nil {
			return err
		}
		if err := r.warm(ctx); err != nil {
			return err
		}
	}
	errs := make(chan error, len(st.replicas))
	for i, r := range st.replicas {
		go func() { errs <- openConnections(ctx, r.transport, st.downstream.url, connections[i]) }()
	}
	var err error
	for range st.replicas {
		err = errors.Join(err, <-errs)
	}
	if err != nil || st.plan.Scenario == Local {
		return err
	}
	return st.reached(ctx)
}

// reached waits until all replicas are served by the store: what they peeked may have been their fallback's, on a machine
// so busy that the store missed the deadline.
func (st *stage) reached(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	peek := []tidegate.Charge{{Rule: rule, Key: key, Limit: &st.plan.Limit}}
	for _, r := range st.replicas {
		for {
			ds, err := r.store.Take(ctx, peek, nil)
			if err == nil && ds[0].Source != tidegate.SourceFallback {
				break
			}
			if !sleep(ctx, time.Now().Add(deadline)) {
				return errors.Join(errors.New("the store does not answer within the deadline of a replica"), err)
			}
		}
	}
	return nil
}

func (st *stage) close() error {
	var err error
	for _, c := range st.clients {
		c.CloseIdleConnections()
	}
	if len(st.replicas) > 0 && st.plan.Scenario != Local && st.redis == nil {
		err = st.clear()
	}
	for _, r := range st.replicas {
		err = errors.Join(err, r.close())
	}
	if st.downstream != nil && st.downstream.listening != nil {
		st.downstream.close()
	}
	if st.redis != nil {
		err = errors.Join(err, st.redis.Close())
	}
	return err
}

// clear deletes the bucket from a store that is somebody else's. The table of the replicas expires by itself.
func (st *stage) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := st.replicas[0].store.Reset(ctx, []tidegate.Charge{{Rule: rule, Key: key, Limit: &st.plan.Limit}})
	if err != nil {
		return fmt.Errorf("the bucket could not be deleted: %w", err)
	}
	return nil
}

// outage is when the store was away, from the start of the run.
type outage struct {
	from, to time.Duration
	err      error
}

// fault makes the store go away at a third of the time, and come back at two thirds.
func (st *stage) fault(ctx context.Context, start time.Time) (o outage) {
	away, back := st.redis.Kill, func() error { return st.redis.Restart(ctx) }
	if st.plan.Fault == Stop {
		away, back = st.redis.Pause, st.redis.Resume
	}
	third := st.plan.Duration / 3
	if !sleep(ctx, start.Add(third)) {
		return outage{err: ctx.Err()}
	}
	o.from = time.Since(start)
	if o.err = away(); o.err != nil || !sleep(ctx, start.Add(2*third)) {
		return outage{err: errors.Join(o.err, ctx.Err())}
	}
	o.err = back()
	o.to = time.Since(start)
	return o
}

// sleep sleeps until a moment, and reports whether ctx lasted as long.
func sleep(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Trace is what a run came to.
type Trace struct {
	plan     *Plan
	sent     int
	answers  *answers
	outage   outage
	arrivals arrivals
}

// Causes are what went wrong, each with how often, the commonest first.
func (t *Trace) Causes() []string {
	type cause struct {
		text string
		n    int
	}
	var all []cause
	for text, n := range t.answers.causes {
		all = append(all, cause{text, n})
	}
	slices.SortFunc(all, func(a, b cause) int { return b.n - a.n })
	texts := make([]string, len(all))
	for i, c := range all {
		texts[i] = fmt.Sprintf("%d requests failed: %s", c.n, c.text)
	}
	return texts
}
