package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore"
)

const storeToken = "the-token-of-the-tests"

var grpcOn = regexp.MustCompile(`for gRPC on (\S+)`)

// serveStores starts a service that stores may ask, and returns where.
func serveStores(t *testing.T, args ...string) (s *served, address string) {
	t.Helper()
	s = serve(t, append([]string{"--grpc", "127.0.0.1:0", "--token-file", tokenFile(t)}, args...)...)
	text, _ := s.stderr.text()
	return s, grpcOn.FindStringSubmatch(text)[1]
}

func openRemote(t *testing.T, address, token string) *remotestore.Store {
	t.Helper()
	s, err := remotestore.Open(address, &remotestore.Config{Token: token, Timeout: 20 * time.Second})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Services share a limit through a served store, in memory and in Redis, and with the HTTP API.
func TestServedStoreIsShared(t *testing.T) {
	redis := redistest.Start(t)
	for _, store := range []string{"memory", redis.URL()} {
		s, address := serveStores(t, "--store", store, "--store-timeout", "9s") // the store decides, however busy the machine is
		limit := &tidegate.Limit{Rate: 10, Per: time.Hour, Burst: 20}
		var allowed atomic.Int64
		var callers sync.WaitGroup
		for range 2 {
			r := openRemote(t, address, storeToken)
			for range 50 {
				callers.Go(func() {
					ds, err := r.Take(t.Context(), []tidegate.Charge{{Rule: "shared", Key: "k", Limit: limit, Cost: 1}}, nil)
					if err != nil {
						t.Error(err)
					} else if ds[0].Allowed {
						allowed.Add(1)
					}
				})
			}
		}
		callers.Wait()
		if n := allowed.Load(); n != 20 {
			t.Errorf("%s: %d were admitted, not 20", store, n)
		}
		if n := s.metric(t, `tidegate_decisions_total{outcome="allowed",rule="shared",source="store"}`); n != 20 {
			t.Errorf("%s: %v decisions are counted", store, n)
		}
		_, err := openRemote(t, address, "wrong").Now(t.Context())
		if !errors.Is(err, tidegate.ErrStore) || !strings.Contains(err.Error(), "the token is not this server's") {
			t.Errorf("%v", err)
		}
	}
}

// While the server's own store is away, its plan for that decides, and the client is told so.
func TestServedStoreInAnOutage(t *testing.T) {
	redis := redistest.Start(t)
	_, address := serveStores(t, "--store", redis.URL(), "--replicas", "1", "--store-timeout", "2s")
	r := openRemote(t, address, storeToken)
	limit := &tidegate.Limit{Rate: 1000, Per: time.Second}
	charges := []tidegate.Charge{{Rule: "r", Key: "k", Limit: limit, Cost: 1}}
	take := func() tidegate.Source {
		ds, err := r.Take(t.Context(), charges, nil)
		must(t, err)
		return ds[0].Source
	}
	if source := take(); source != tidegate.SourceStore {
		t.Errorf("decided by %v", source)
	}
	redis.Kill()
	eventually(t, patience, "the plan decides", func() bool { return take() == tidegate.SourceFallback })
	redis.Restart()
	eventually(t, patience, "the store decides", func() bool { return take() == tidegate.SourceStore })
}

// A store that takes longer than the timeout is away; with a longer one, it decides.
func TestServeStoreTimeout(t *testing.T) {
	for timeout, want := range map[string]tidegate.Source{"50ms": tidegate.SourceFallback, "9s": tidegate.SourceStore} {
		redis := redistest.Start(t)
		_, address := serveStores(t, "--store", redis.URL(), "--replicas", "1", "--store-timeout", timeout)
		r := openRemote(t, address, storeToken)
		charges := []tidegate.Charge{{Rule: "r", Key: "k", Limit: &tidegate.Limit{Rate: 1000, Per: time.Second}, Cost: 1}}
		_, err := r.Take(t.Context(), charges, nil)
		must(t, err)
		_, err = redis.Do("CLIENT", "PAUSE", "400", "ALL")
		must(t, err)
		ds, err := r.Take(t.Context(), charges, nil)
		must(t, err)
		if ds[0].Source != want {
			t.Errorf("with a timeout of %s it is decided by %v, not %v", timeout, ds[0].Source, want)
		}
	}
}

// A service that is told to end answers what it was asked, and a client finds the next one at the address.
func TestServedStoreIsReplaced(t *testing.T) {
	s, address := serveStores(t)
	r := openRemote(t, address, storeToken)
	charges := []tidegate.Charge{{Rule: "r", Key: "k", Limit: &tidegate.Limit{Rate: 1000000, Per: time.Second}, Cost: 1}}
	take := func() error {
		_, err := r.Take(t.Context(), charges, nil)
		return err
	}
	must(t, take())
	must(t, s.cmd.Process.Signal(syscall.SIGTERM))
	<-s.done
	if err := take(); !errors.Is(err, tidegate.ErrStore) {
		t.Errorf("nobody is there, and the take says %v", err)
	}
	serve(t, "--grpc", address, "--token-file", tokenFile(t))
	eventually(t, patience, "the next one decides", func() bool { return take() == nil })
}

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(storeToken), 0o600))
	return file
}

// Rules that others name do not make series without end, nor break the metrics.
func TestCountedRulesAreBounded(t *testing.T) {
	m := memstore.New(nil)
	defer m.Close()
	seen := map[string]int{}
	s := &countedStore{Store: m, decided: func(d *tidegate.Decision) { seen[d.Rule]++ }}
	limit := &tidegate.Limit{Rate: 10, Per: time.Second}
	for i := range 3 * maxCountedRules {
		_, err := s.Take(t.Context(), []tidegate.Charge{{Rule: strconv.Itoa(i) + "\xff", Limit: limit, Cost: 1}}, nil)
		must(t, err)
		_, err = s.Take(t.Context(), []tidegate.Charge{{Rule: "peeked", Limit: limit}}, nil)
		must(t, err)
	}
	if len(seen) != maxCountedRules+1 || seen["0\uFFFD"] != 1 || seen[otherRules] != 2*maxCountedRules {
		t.Errorf("%d rules are counted, %d decisions of others", len(seen), seen[otherRules])
	}
}
