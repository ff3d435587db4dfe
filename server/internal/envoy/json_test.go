package envoy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/memstore"
)

func TestJSON(t *testing.T) {
	store := memstore.New(nil)
	s, err := NewService(ServiceConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	trusted := false
	h := s.JSON(func(*http.Request) bool { return trusted })
	post := func(body string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
		return w.Code, strings.ReplaceAll(w.Body.String(), " ", "")
	}
	const good = `{"domain":"mongo_cps","descriptors":[{"entries":[{"key":"database","value":"users"}]}]}`
	refund := strings.Replace(good, `]}]}`, `],"isNegativeHits":true}]}`, 1)
	want := func(body string, status int, text string) {
		t.Helper()
		if code, got := post(body); code != status || !strings.Contains(got, strings.ReplaceAll(text, " ", "")) {
			t.Errorf("%s: %d %s, want %d %s", body, code, got, status, text)
		}
	}
	want(good, 400, "no rate limit configuration is loaded")
	s.Set(mustParse(t, "domain: mongo_cps\ndescriptors:\n- key: database\n  rate_limit: {unit: year, requests_per_unit: 1}\n"))
	want(good, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"YEAR"},"durationUntilReset":"`)
	want(good, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"YEAR"},"durationUntilReset":"`)
	want(refund, 400, "needs the token")
	trusted = true
	want(refund, 200, `"limitRemaining":1`)
	want(``, 400, "is not a RateLimitRequest")
	want(`[]`, 400, "is not a RateLimitRequest")
	want(`{"unknown":1}`, 400, "is not a RateLimitRequest")
	want(`{}`, 400, "rate limit domain must not be empty")
	want(`{"domain":"d"}`, 400, "rate limit descriptor list must not be empty")
	want(`{"domain":"d","descriptors":[`+strings.TrimSuffix(strings.Repeat("{},", 257), ",")+`]}`, 400, "at most 256")
	want(strings.Replace(good, `]}]}`, `],"hitsAddend":"9007199254740992"}]}`, 1), 400, "counted exactly")
	want(strings.Repeat(" ", maxJSON)+good, 400, "cannot be read")
	want(`{"domain":"d","descriptors":[{}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`)
	want(`{"domain":"mongo_cps","descriptors":[{}, {"entries":[{}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"},{"code":"OK"}]}`)
	store.Close()
	want(good, 400, "closed")
}
