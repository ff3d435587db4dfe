package storetest

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Harness makes the stores under test.
type Harness struct {
	// New returns a store without buckets that decides by the clock now, which may be called at any time and from any
	// goroutine. The suite closes it; what else it needs ends with t.
	New func(t *testing.T, now func() time.Time) tidegate.Store
	// Buckets returns how many buckets a store of New holds. Optional: with it the suite also sees that a peek and a
	// denial create none.
	Buckets func(t *testing.T, store tidegate.Store) int64
	// NotAtomic says that a take over several keys is not decided at one moment, as in a cluster, where another take can be
	// refused for want of what is about to be given back. Nothing else is excused.
	NotAtomic bool
	// Seed begins the random cases. Default: that of TIDEGATE_SEED in the environment, or a new one for each run.
	Seed uint64
	// Rounds is how many random limits each random case tries. Default: 100, or 10 with -short.
	Rounds int
}

// testCase is a promise and an attempt to catch the store breaking it.
type testCase struct {
	name string
	rule string // the promise, which a failure quotes
	run  func(*trial)
}

// group is a set of cases about one subject.
type group struct {
	name  string
	cases []testCase
}

func groups() []group {
	return []group{
		{"decisions", decisionCases()},
		{"calendar", calendarCases()},
		{"cost", costCases()},
		{"exactness", exactnessCases()},
		{"bounds", boundCases()},
		{"several", severalCases()},
		{"change", changeCases()},
		{"clock", clockCases()},
		{"reserve", reserveCases()},
		{"settle", settleCases()},
		{"permits", permitCases()},
		{"keys", keyCases()},
		{"calls", callCases()},
		{"concurrent", concurrentCases()},
		{"faults", faultCases()},
	}
}

// Run runs the suite, a subtest for each case.
func Run(t *testing.T, h Harness) {
	t.Helper()
	h = h.withDefaults()
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					c.run(newTrial(t, t, &h, &c))
				})
			}
		})
	}
}

func (h Harness) withDefaults() Harness {
	if h.Seed == 0 {
		h.Seed, _ = strconv.ParseUint(os.Getenv("TIDEGATE_SEED"), 10, 64)
	}
	for h.Seed == 0 {
		h.Seed = rand.Uint64()
	}
	if h.Rounds == 0 {
		h.Rounds = 100
		if testing.Short() {
			h.Rounds = 10
		}
	}
	return h
}

// random returns the numbers of a case, which do not depend on the cases before it.
func (h *Harness) random(name string) *rand.Rand {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Seed, sum.Sum64()))
}
