package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestPageIsServed(t *testing.T) {
	s := newTestServer(t, nil)
	w := call(s, http.MethodGet, "/", "")
	wantStatus(t, w, http.StatusOK)
	if !strings.Contains(w.Body.String(), `src="page/page.js"`) || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%v\n%s", w.Header(), w.Body)
	}
	wantStatus(t, call(s, http.MethodHead, "/", ""), http.StatusOK)
	wantStatus(t, call(s, http.MethodGet, "/page/page.js", ""), http.StatusOK)
	wantStatus(t, call(s, http.MethodGet, "/page/none.js", ""), http.StatusNotFound)
	wantError(t, post(s, "/page/page.js", ""), http.StatusMethodNotAllowed, "wants GET, HEAD")
	wantError(t, call(s, http.MethodGet, "/none", ""), http.StatusNotFound, "there is no path")
}
