package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// recorder takes the failures of a case instead of a test.
type recorder struct {
	ctx      context.Context
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs the cases of a group, or one case, on the stores of a harness, and returns what they found, by case.
func failures(t *testing.T, h Harness, groupOrCase string) map[string][]string {
	t.Helper()
	h = h.withDefaults()
	found := map[string][]string{}
	ran := false
	for _, g := range groups() {
		for _, c := range g.cases {
			name := g.name + "/" + c.name
			if name != groupOrCase && !strings.HasPrefix(name, groupOrCase+"/") {
				continue
			}
			ran = true
			r := &recorder{ctx: t.Context()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.run(newTrial(t, r, &h, &c))
			}()
			<-done
			if len(r.failures) > 0 {
				found[name] = r.failures
			}
		}
	}
	if !ran {
		t.Fatalf("there is no group and no case %q", groupOrCase)
	}
	return found
}

// The suite is itself tested: it must catch each of these, where it finds nothing wrong with a good store.
func TestSuiteCatches(t *testing.T) {
	harness := func(change func(*faulty)) Harness {
		return Harness{
			New: func(t *testing.T, now func() time.Time) tidegate.Store {
				t.Helper()
				f := newFaulty(now, change)
				t.Cleanup(func() { _ = f.Store.Close() })
				return f
			},
			Rounds: 20,
			Seed:   1,
		}
	}
	for _, b := range brokenStores() {
		t.Run(b.name, func(t *testing.T) {
			good := failures(t, harness(func(*faulty) {}), b.caughtBy)
			found := failures(t, harness(b.make), b.caughtBy)
			for name := range good {
				delete(found, name)
			}
			if len(found) == 0 {
				t.Errorf("a store with this fault passes %s", b.caughtBy)
			}
			for name, f := range found {
				t.Logf("%s: %s", name, f[0])
			}
		})
	}
}

func TestSeedRepeats(t *testing.T) {
	const name = "exactness/arithmetic/token bucket"
	run := func(seed uint64) []string {
		return failures(t, Harness{
			New: func(_ *testing.T, now func() time.Time) tidegate.Store {
				return newFaulty(now, clocked(func(t time.Time) time.Time { return t.Truncate(ms) }))
			},
			Seed: seed, Rounds: 20,
		}, name)[name]
	}
	if one, two := run(7), run(7); len(one) == 0 || !slices.Equal(one, two) {
		t.Errorf("two runs of one seed differ: %q, %q", one, two)
	}
	if one, two := run(7), run(8); slices.Equal(one, two) {
		t.Errorf("two seeds give one run: %q", one)
	}
}
