package server

import (
	"net/http"
	"strings"
	"testing"
)

// Requests without the attribute that a key is made of fell into one bucket that they all shared: one client throttled all
// (RB-109). Here such a request is not the rule's, and one that names the rule without a key is malformed.
func TestRequestsWithoutTheAttributeShareNoBucket(t *testing.T) {
	s := newTestServer(t, &Config{})
	for range 30 {
		for _, body := range []string{`{"attributes":{}}`, `{"attributes":{"key":null}}`, `{"attributes":{"Key":"k"}}`} {
			w := post(s, "/v1/take", body)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"source":"unlimited"`) {
				t.Fatalf("%s: %d %s", body, w.Code, w.Body)
			}
		}
		wantError(t, post(s, "/v1/take", `{"rule":"example"}`), http.StatusBadRequest, "has one key part")
		wantError(t, post(s, "/v1/take", `{"rule":"example","key":null}`), http.StatusBadRequest, "has one key part")
	}
	wantReply(t, post(s, "/v1/take", `{"rule":"example","key":""}`), http.StatusOK, allowedFirst)
}
