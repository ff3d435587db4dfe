package server

import (
	"net/http"
	"testing"
)

func TestPathsAndMethods(t *testing.T) {
	s := newTestServer(t, nil)
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/settle", "/v1/acquire", "/v1/renew", "/v1/release", "/v1/reset"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodHead} {
			w := call(s, method, path, "")
			wantError(t, w, http.StatusMethodNotAllowed, "wants POST")
			if got := w.Header().Get("Allow"); got != http.MethodPost {
				t.Errorf("%s %s: Allow is %q", method, path, got)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		wantStatus(t, call(s, http.MethodGet, path, ""), http.StatusOK)
		wantStatus(t, call(s, http.MethodHead, path, ""), http.StatusOK)
		w := post(s, path, "")
		wantError(t, w, http.StatusMethodNotAllowed, "wants GET, HEAD")
		if got := w.Header().Get("Allow"); got != "GET, HEAD" {
			t.Errorf("POST %s: Allow is %q", path, got)
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/takes", "/v1/take/", "/V1/take", "/v1/nothing"} {
		wantError(t, post(s, path, `{"rule":"example","key":"k"}`), http.StatusNotFound, "there is no path")
	}
}
