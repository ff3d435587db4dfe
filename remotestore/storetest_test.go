package remotestore

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/storetest"
)

// behind is a remote store, and what it asks in the end.
type behind struct {
	tidegate.Store
	memory *memstore.Store
}

func conformance(wrap func(*testing.T, tidegate.Store) tidegate.Store, cfg Config, together, rounds int) storetest.Harness {
	cfg.Timeout = 30 * time.Second // on a busy machine, under the race detector
	return storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			m := memory(t, now)
			srv := serve(t, storeservice.Config{Store: m, Together: together})
			return &behind{wrap(t, open(t, srv.addr, &cfg)), m}
		},
		Buckets: func(_ *testing.T, s tidegate.Store) int64 { return s.(*behind).memory.Stats().Keys },
		Rounds:  rounds,
	}
}

func bare(_ *testing.T, s tidegate.Store) tidegate.Store { return s }

func TestConformance(t *testing.T) {
	storetest.Run(t, conformance(bare, Config{}, 1, 30))
}

// TestConformanceTogether asks the takes of a batch at once, as a server does whose store is a round trip away.
func TestConformanceTogether(t *testing.T) {
	storetest.Run(t, conformance(bare, Config{NoLeases: true}, 128, 5))
}

// TestConformanceUnderTheWrapper: while the server is well, a store that outlives its failure is as good as the store.
func TestConformanceUnderTheWrapper(t *testing.T) {
	storetest.Run(t, conformance(func(t *testing.T, s tidegate.Store) tidegate.Store {
		t.Helper()
		w, err := resilience.New(s, &resilience.Config{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}, Config{}, 1, 5))
}
