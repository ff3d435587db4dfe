package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// Who asks is told how each request that passed was answered, a panic as a 500; nothing of those that were refused.
func TestOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		limiter, err := tidegate.New(store, tidegate.Limit{Rate: 3, Per: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		m, err := httplimit.New(limiter, &httplimit.Config{Outcome: func(r *http.Request, status int, took time.Duration) {
			told = append(told, fmt.Sprint(r.URL.Path, " ", status, " ", took))
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond)
			switch r.URL.Path {
			case "/bad":
				w.WriteHeader(http.StatusBadGateway)
			case "/panic":
				panic("out of order")
			}
		}))
		for _, path := range []string{"/good", "/bad", "/panic", "/refused"} {
			func() {
				defer func() { _ = recover() }()
				r := httptest.NewRequest(http.MethodGet, path, nil)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}()
		}
		if want := []string{"/good 200 20ms", "/bad 502 20ms", "/panic 500 20ms"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
