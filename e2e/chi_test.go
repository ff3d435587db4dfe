package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
)

// A router that is built on net/http needs no adapter: chi takes the middleware as it is, and gives the same answers.
func TestChiConforms(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := httplimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		r := chi.NewRouter()
		r.Use(limits.Wrap)
		for _, route := range s.Routes {
			r.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
				status, body := s.Serve(r.Context(), r.URL.Path)
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		}
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		return server.URL
	})
}
