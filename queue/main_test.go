package queue

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"go.uber.org/goleak"
)

// Nothing that a queue started outlives it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// limiter returns one in a store of its own, which is closed with the test.
func limiter(tb testing.TB, text string) *tidegate.Limiter {
	tb.Helper()
	store := memstore.New(&memstore.Config{SweepEvery: -1})
	tb.Cleanup(func() { _ = store.Close() })
	limit, err := tidegate.ParseLimit(text)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := tidegate.New(store, limit, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// shutdown shuts a queue down, within an hour of virtual time, and wants nothing to be left.
func shutdown[T any](tb testing.TB, q *Queue[T]) {
	tb.Helper()
	ctx, cancel := within(tb, time.Hour)
	defer cancel()
	if left, err := q.Shutdown(ctx); err != nil || len(left) > 0 {
		tb.Errorf("%d jobs are left: %v", len(left), err)
	}
	check(tb, q)
}

// check looks that each job is accounted for.
func check[T any](tb testing.TB, q *Queue[T]) {
	tb.Helper()
	s := q.Stats()
	if s.Accepted != s.Done+s.Dropped+s.Left+int64(s.Waiting)+int64(s.Running) {
		tb.Errorf("%+v: a job is missing", s)
	}
}
