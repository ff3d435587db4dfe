package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/registry"
	"github.com/tidegate-go/tidegate/memstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// server is the shared store as all replicas see it: buckets and a table, in memory.
type server struct {
	mu      sync.Mutex
	store   *memstore.Store
	behind  *memstore.Store // what a failover finds
	lagging bool            // and what it does not hear of any more
	table   registry.Table
	beats   int
	told    map[int64]told // what the table had, second by second
}

// told is how many replicas had beaten in a second, and of how many rules they had told.
type told struct{ beaten, rules int }

func newServer(t *testing.T) *server {
	t.Helper()
	sv := &server{store: memstore.New(nil), behind: memstore.New(nil)}
	sv.clear()
	t.Cleanup(func() {
		sv.store.Close()
		sv.behind.Close()
	})
	return sv
}

func (sv *server) clear() {
	sv.table, sv.told = registry.Table{}, map[int64]told{}
}

// wipe loses all data.
func (sv *server) wipe() {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	sv.store.Close()
	sv.store = memstore.New(nil)
	sv.clear()
}

// failOver loses what the replica has not heard of.
func (sv *server) failOver() {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	sv.store.Close()
	sv.store, sv.behind, sv.lagging = sv.behind, memstore.New(nil), true
}

func (sv *server) beat(b tidegate.Beat) (t tidegate.Table) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	sv.beats++
	now := time.Now()
	t = sv.table.Beat(&b, now.UnixMicro())
	if beaten, rules, ok := sv.table.Second(now.Unix()); ok {
		sv.told[now.Unix()] = told{beaten, rules}
	}
	return t
}

// fault is how a way to the server fails.
type fault func(ctx context.Context, op string, do func() error) error

// hangs answers nothing, and does nothing.
func hangs(ctx context.Context, _ string, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// lost does what is asked, and its answer is lost.
func lost(ctx context.Context, _ string, do func() error) error {
	_ = do()
	<-ctx.Done()
	return ctx.Err()
}

// fails answers with an error.
func fails(text string) fault {
	return func(_ context.Context, op string, _ func() error) error {
		return &tidegate.StoreError{Op: op, Err: errors.New(text)}
	}
}

// way is one replica's way to the server.
type way struct {
	*server
	fault atomic.Pointer[fault]
	calls atomic.Int64
}

func (w *way) set(f fault) {
	if f == nil {
		w.fault.Store(nil)
		return
	}
	w.fault.Store(&f)
}

func (w *way) do(ctx context.Context, op string, f func() error) error {
	w.calls.Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault := w.fault.Load(); fault != nil {
		return (*fault)(ctx, op, f)
	}
	return f()
}

func (w *way) stores() (*memstore.Store, *memstore.Store) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lagging {
		return w.store, nil
	}
	return w.store, w.behind
}

func (w *way) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) (ds []tidegate.Decision, err error) {
	err = w.do(ctx, "take", func() (err error) {
		first, second := w.stores()
		if second != nil {
			_, _ = second.Take(ctx, charges, nil)
		}
		ds, err = first.Take(ctx, charges, dst)
		return err
	})
	if err != nil {
		return dst, err
	}
	return ds, nil
}

func (w *way) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	return w.do(ctx, "settle", func() error { s, _ := w.stores(); return s.Settle(ctx, id, charges, cost) })
}

func (w *way) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return w.do(ctx, "renew", func() error { s, _ := w.stores(); return s.Renew(ctx, id, charges) })
}

func (w *way) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return w.do(ctx, "release", func() error { s, _ := w.stores(); return s.Release(ctx, id, charges) })
}

func (w *way) Reset(ctx context.Context, charges []tidegate.Charge) error {
	return w.do(ctx, "reset", func() error { s, _ := w.stores(); return s.Reset(ctx, charges) })
}

func (w *way) Now(ctx context.Context) (now time.Time, err error) {
	err = w.do(ctx, "now", func() (err error) { s, _ := w.stores(); now, err = s.Now(ctx); return err })
	return now, err
}

func (w *way) Beat(ctx context.Context, b tidegate.Beat) (t tidegate.Table, err error) {
	err = w.do(ctx, "beat", func() error { t = w.beat(b); return nil })
	return t, err
}

func (*way) Close() error { return nil }

// replica is a wrapper and its way.
type replica struct {
	*Store
	way *way
	log *lines
	t   *testing.T
}

// lines counts what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newReplica(t *testing.T, sv *server, cfg Config) *replica {
	t.Helper()
	return newReplicaOn(t, &replica{way: &way{server: sv}, log: &lines{}, t: t}, cfg)
}

// newReplicaOn makes the wrapper of a replica whose way may be a bad one already.
func newReplicaOn(t *testing.T, r *replica, cfg Config) *replica {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.Store, err = New(r.way, &cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// newFleet returns replicas of one server.
func newFleet(t *testing.T, sv *server, n int, cfg Config) []*replica {
	t.Helper()
	var rs []*replica
	for i := range n {
		cfg.ID = fmt.Sprint("replica ", i)
		rs = append(rs, newReplica(t, sv, cfg))
	}
	return rs
}

func limit(t *testing.T, text string) *tidegate.Limit {
	t.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return &l
}

func charge(t *testing.T, rule, key, text string, cost int64) tidegate.Charge {
	t.Helper()
	return tidegate.Charge{Rule: rule, Key: key, Limit: limit(t, text), Cost: cost}
}

// take takes, and wants a decision.
func (r *replica) take(cs ...tidegate.Charge) tidegate.Decision {
	r.t.Helper()
	ds, err := r.Take(context.Background(), cs, nil)
	if err != nil {
		r.t.Fatalf("take: %v", err)
	}
	return tidegate.Combine(cs, ds)
}

// admits takes so often, and returns how many passed.
func (r *replica) admits(c tidegate.Charge, times int) (n int64) {
	r.t.Helper()
	for range times {
		if r.take(c).Allowed {
			n++
		}
	}
	return n
}

// drop opens the breaker by a fault and takes of a key of its own.
func (r *replica) drop(f fault) {
	r.t.Helper()
	synctest.Wait() // for a heartbeat that is under way
	r.way.set(f)
	for range defaultFailures {
		r.take(charge(r.t, "drop", "drop", "1/h", 1))
	}
	synctest.Wait() // what pays the first's debt may fail at the very moment at which who waits for it gives up
	if got := r.Status().State; got != Fallback {
		r.t.Fatalf("after %d failures the state is %v", defaultFailures, got)
	}
}

// remains asks the server what remains of a key.
func (sv *server) remains(t *testing.T, c tidegate.Charge) int64 {
	t.Helper()
	c.Cost, c.ID = 0, ""
	sv.mu.Lock()
	defer sv.mu.Unlock()
	ds, err := sv.store.Take(context.Background(), []tidegate.Charge{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ds[0].Remaining
}
