package redisstore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/storetest"
)

// spaces counts the key prefixes of the stores that the suite asked for, so that each begins without buckets.
var spaces atomic.Int64

// injected gives a store a clock, as the production scripts see it with that one line replaced, and a space of its own.
func injected(t *testing.T, url string, cfg Config, now func() time.Time) tidegate.Store {
	t.Helper()
	cfg.Prefix = fmt.Sprintf("conformance%d:", spaces.Add(1))
	cfg.Timeout = 30 * time.Second // on a busy machine, under the race detector
	s, err := Open(url, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.scripts = newScripts(true)
	s.inject = func() int64 { return now().UnixMicro() }
	return s
}

func TestConformance(t *testing.T) {
	srv := redistest.Start(t)
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			if _, err := srv.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			return injected(t, srv.URL(), Config{Now: now}, now)
		},
		Buckets: func(t *testing.T, _ tidegate.Store) int64 {
			t.Helper()
			n, err := srv.Do("DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			return n.(int64)
		},
		Rounds: 30,
	})
}

// TestConformanceUnderTheWrapper: while the server is well, a store that outlives its failure is as good as the store.
func TestConformanceUnderTheWrapper(t *testing.T) {
	srv := redistest.Start(t)
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			if _, err := srv.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			s, err := resilience.New(injected(t, srv.URL(), Config{Now: now}, now), &resilience.Config{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Buckets: func(t *testing.T, _ tidegate.Store) (n int64) {
			t.Helper()
			for _, key := range storedKeys(t, srv, "*") {
				if !strings.Contains(key, "%=") { // the table of the replicas
					n++
				}
			}
			return n
		},
		Rounds: 10,
	})
}

// TestConformanceWithSecret hides the names of the buckets, and lets the scripts ask for the boundaries of every calendar
// window, since the caller's clock is a lifetime behind the server's.
func TestConformanceWithSecret(t *testing.T) {
	srv := redistest.Start(t)
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			return injected(t, srv.URL(), Config{KeySecret: []byte("a secret of the tests")}, now)
		},
		Rounds: 5,
	})
}

// TestConformanceCluster decides takes over several keys slot by slot.
func TestConformanceCluster(t *testing.T) {
	clu := redistest.StartCluster(t)
	url := "redis+cluster://"
	for i, addr := range clu.Addrs {
		if i > 0 {
			url += ","
		}
		url += addr
	}
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, now func() time.Time) tidegate.Store {
			t.Helper()
			return injected(t, url, Config{Now: now}, now)
		},
		NotAtomic: true,
		Rounds:    5,
	})
}
