package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
)

// checkReply fails the test unless the answer is one that the API can give to a POST with the token, on a store that works.
func checkReply(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	allowed := []int{
		http.StatusOK, http.StatusTooManyRequests, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge,
	}
	if !slices.Contains(allowed, w.Code) {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var reply struct {
		Error   *string  `json:"error"`
		Allowed *bool    `json:"allowed"`
		Retry   *float64 `json:"retry_after_seconds"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	denied := w.Code == http.StatusTooManyRequests
	if (w.Code == http.StatusOK || denied) == (reply.Error != nil) || reply.Allowed != nil && *reply.Allowed == denied {
		t.Fatalf("status %d does not fit: %s", w.Code, w.Body)
	}
	header := w.Header().Get("Retry-After")
	if (header != "") != (denied && reply.Retry != nil) {
		t.Fatalf("Retry-After %q with status %d: %s", header, w.Code, w.Body)
	}
	if header != "" {
		seconds, err := strconv.Atoi(header)
		if err != nil || seconds < 1 || float64(seconds) < *reply.Retry {
			t.Fatalf("Retry-After %q: %s", header, w.Body)
		}
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
