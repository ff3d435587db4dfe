package redisstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"
)

// An API with a limit for each tenant that all replicas keep together, since the buckets are in Redis. What differs from a
// limit in memory is the line that opens the store.
func Example_tenants() { //nolint:testableexamples // it needs a server; TestExampleTenants runs what it shows
	handler, done, err := tenants("redis://localhost:6379", http.NotFoundHandler())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	server := &http.Server{Addr: ":8080", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	fmt.Println(server.ListenAndServe())
}

// tenants protects an API. Who the tenant is has to be found out by something that checks it, such as a token: a header
// that the client writes would be whatever it likes.
func tenants(redis string, api http.Handler) (http.Handler, func(), error) {
	store, err := redisstore.Open(redis, nil)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = store.Close() }
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 100, Per: time.Minute, Burst: 20},
		&tidegate.Config{Rule: "per-tenant", KeyBy: "tenant"})
	if err != nil {
		done()
		return nil, nil, err
	}
	limits, err := httplimit.New(limiter, &httplimit.Config{
		Attribute: func(r *http.Request, name string) (string, bool) {
			if name != "tenant" {
				return "", false
			}
			user, password, ok := r.BasicAuth()
			return user, ok && password == "secret of "+user
		},
		Require: []string{"tenant"},
	})
	if err != nil {
		done()
		return nil, nil, err
	}
	return limits.Wrap(api), done, nil
}

// The example does what it says, through two replicas and a real server.
func TestExampleTenants(t *testing.T) {
	redis := redistest.StartTCP(t)
	var replicas []http.Handler
	for range 2 {
		h, done, err := tenants(redis.URL(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(done)
		replicas = append(replicas, h)
	}
	ask := func(n int, tenant, password string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(tenant, password)
		w := httptest.NewRecorder()
		replicas[n%2].ServeHTTP(w, r)
		return w.Code
	}
	passed := 0
	for n := range 40 {
		if ask(n, "acme", "secret of acme") == http.StatusOK {
			passed++
		}
	}
	if passed < 20 || passed > 25 { // the burst, and what comes back meanwhile
		t.Errorf("%d of 40 passed, want the 20 of the burst", passed)
	}
	if status := ask(0, "other", "secret of other"); status != http.StatusOK {
		t.Errorf("another tenant: %d", status)
	}
	if status := ask(0, "acme", "guess"); status != http.StatusBadRequest {
		t.Errorf("nobody's tenant: %d", status)
	}
}
