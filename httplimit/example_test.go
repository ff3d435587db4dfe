package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// A server that lets each client send two requests a minute.
func Example() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Minute}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := httplimit.New(limiter, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		d, _ := httplimit.FromContext(r.Context())
		fmt.Fprintf(w, "hello, %d left", d.Remaining)
	})
	server := httptest.NewServer(limits.Wrap(mux)) // in a program: http.ListenAndServe(":8080", limits.Wrap(mux))
	defer server.Close()

	for range 3 {
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%d, RateLimit %s, Retry-After %q\n", resp.StatusCode, resp.Header.Get("RateLimit"), resp.Header.Get("Retry-After"))
		if resp.StatusCode == http.StatusOK {
			fmt.Println(string(body))
		}
	}
	// Output:
	// 200, RateLimit "2/min";r=1;t=30, Retry-After ""
	// hello, 1 left
	// 200, RateLimit "2/min";r=0;t=30, Retry-After ""
	// hello, 0 left
	// 429, RateLimit "2/min";r=0;t=30, Retry-After "30"
}

// Wrong passwords are counted by address, right ones are not: whoever types theirs correctly is never locked out by having
// used the service a lot.
func ExampleNew_login() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 3, Per: time.Hour, Algorithm: tidegate.SlidingWindow},
		&tidegate.Config{Rule: "login"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := httplimit.New(limiter, &httplimit.Config{
		Count:   httplimit.CountFailures,
		Require: []string{"ip"}, // nobody without an address
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	login := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"right", "right", "guess", "right", "guess", "guess", "guess", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("password="+password))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		login.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// right 200
	// guess 401
	// right 200
	// guess 401
	// guess 401
	// guess 429
	// right 429
}

// No more requests at once than the database has connections for; a few may wait for a moment. A permit is given back when
// the response is complete.
func ExampleQueue() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 2, Algorithm: tidegate.Concurrency},
		&tidegate.Config{Rule: "database", KeyBy: "pool"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := httplimit.New(limiter, &httplimit.Config{
		// One key for all: the pool is one, whoever asks.
		Attribute: func(_ *http.Request, name string) (string, bool) { return "main", name == "pool" },
		Queue:     httplimit.Queue{Length: 1, Wait: 10 * time.Second},
		Status:    http.StatusServiceUnavailable, // it is not the client's fault
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	entered, leave := make(chan bool), make(chan bool)
	report := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	}))
	ask := func() int {
		w := httptest.NewRecorder()
		report.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/report", nil))
		return w.Code
	}
	answers := make(chan int)
	for range 3 {
		go func() { answers <- ask() }()
	}
	<-entered
	<-entered
	for limits.Waiting() < 1 { // the third waits
		time.Sleep(time.Millisecond)
	}
	fmt.Println("a fourth:", ask())

	leave <- true
	fmt.Println("one is complete:", <-answers)
	<-entered
	fmt.Println("the third is served")
	close(leave)
	fmt.Println(<-answers, <-answers)
	// Output:
	// a fourth: 503
	// one is complete: 200
	// the third is served
	// 200 200
}

// A client that keeps to a limit which the other side has published, and stops when it is told to.
func ExampleNewTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 100, Per: time.Minute, Burst: 10}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	transport, err := httplimit.NewTransport(&httplimit.TransportConfig{
		Base:    server.Client().Transport,
		Limiter: limiter,
		MaxWait: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 2 {
		resp, err := client.Get(server.URL)
		if err != nil {
			fmt.Println("not sent, since the pause is longer than MaxWait")
			continue
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 429 Too Many Requests
	// not sent, since the pause is longer than MaxWait
}
