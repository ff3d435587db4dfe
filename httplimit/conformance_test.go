package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
)

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := httplimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		for _, route := range s.Routes {
			mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
				status, body := s.Serve(r.Context(), r.URL.Path)
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		}
		server := httptest.NewServer(limits.Wrap(mux))
		t.Cleanup(server.Close)
		return server.URL
	})
}
