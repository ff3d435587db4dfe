package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
	"github.com/tidegate-go/tidegate/memstore"
)

// Pitfall: a key that the client writes is no limit. With X-Forwarded-For as the key, each request can be a new client.
// Say instead which proxies are yours, and take "ip".
func ExampleConfig_trustingForwardedFor() {
	store := memstore.New(nil)
	defer store.Close()
	forge := func(keyBy string, cfg *httplimit.Config) (passed int) {
		limiter, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, &tidegate.Config{Rule: keyBy, KeyBy: keyBy})
		if err != nil {
			fmt.Println(err)
			return 0
		}
		limits, err := httplimit.New(limiter, cfg)
		if err != nil {
			fmt.Println(err)
			return 0
		}
		h := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
		for i := range 100 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.0.0.1:1234" // the load balancer
			// What the attacker made up, and what the load balancer appended to it.
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 203.0.113.9", i))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		return passed
	}
	fmt.Println("by the header:", forge("header.x-forwarded-for", nil))
	fmt.Println("by ip:", forge("ip", &httplimit.Config{ClientIP: &clientip.Config{Trusted: []string{"10.0.0.0/8"}}}))
	// Output:
	// by the header: 100
	// by ip: 1
}

// Pitfall: Wait in a handler. Each caller that waits holds a connection and a goroutine, and nothing bounds how many there
// are; by the time that the last has its turn, its client is gone. A queue is bounded in number and time, and who has no
// place in it is told at once when to come back.
func ExampleConfig_waitingInAHandler() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour, Burst: 1}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Not: limiter.Wait(r.Context(), key) in the handler.
	limits, err := httplimit.New(limiter, &httplimit.Config{Queue: httplimit.Queue{Length: 100, Wait: 2 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d, Retry-After %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, Retry-After ""
	// 429, Retry-After "3600"
}
