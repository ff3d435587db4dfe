package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/httplimit"
)

// A server that shuts down answers all who wait: it serves them in turn, or tells them at once where the queue is closed with
// it. None is lost either way.
func TestShutdownLosesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		closes bool
		want   map[int]int
	}{
		"served":       {false, map[int]int{http.StatusOK: 21}},
		"told at once": {true, map[int]int{http.StatusOK: 1, http.StatusServiceUnavailable: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			m := middleware(t, limiter(t, "1 concurrent"), &httplimit.Config{Queue: httplimit.Queue{Length: 20, Wait: time.Minute}})
			busy, leave := make(chan bool, 21), make(chan bool)
			server := &http.Server{Handler: m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				busy <- true
				<-leave
			}))}
			if c.closes {
				server.RegisterOnShutdown(func() { _ = m.Close() })
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()

			transport := &http.Transport{DisableKeepAlives: true}
			statuses := make(chan int, 21)
			for range 21 {
				go func() {
					r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+listener.Addr().String(), nil)
					resp, err := transport.RoundTrip(r)
					if err != nil {
						t.Error(err)
						statuses <- 0
						return
					}
					resp.Body.Close()
					statuses <- resp.StatusCode
				}()
			}
			<-busy
			for until := time.Now().Add(10 * time.Second); m.Waiting() < 20; time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%d wait", m.Waiting())
				}
			}
			down := make(chan error, 1)
			go func() { down <- server.Shutdown(context.Background()) }()
			if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // it is never wrapped
				t.Error(err)
			}
			got := make(map[int]int)
			if c.closes { // before any place is free
				for range 20 {
					got[<-statuses]++
				}
			}
			close(leave)
			for len(got) == 0 || got[http.StatusOK]+got[http.StatusServiceUnavailable]+got[0] < 21 {
				got[<-statuses]++
			}
			if err := <-down; err != nil {
				t.Error(err)
			}
			for status, n := range c.want {
				if got[status] != n {
					t.Errorf("the answers are %v, want %v", got, c.want)
				}
			}
		})
	}
}
