package server

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const allowedFirst = `{"allowed":true,"limit":20,"remaining":19,"retry_after_seconds":0,"reset_after_seconds":0.1,"delay_seconds":0,"rule":"example","source":"store"}`

func TestTakeAnswersTheDecisionInCompactJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		w := post(s, "/v1/take", `{"rule":"example","key":"user:1"}`)
		wantReply(t, w, http.StatusOK, allowedFirst)
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type is %q", got)
		}
		if got := w.Header().Values("Retry-After"); got != nil {
			t.Errorf("Retry-After on an allowed take: %q", got)
		}
		for range 19 {
			wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"user:1"}`), http.StatusOK)
		}
		w = post(s, "/v1/take", `{"rule":"example","key":"user:1"}`)
		wantReply(t, w, http.StatusTooManyRequests,
			`{"allowed":false,"limit":20,"remaining":0,"retry_after_seconds":0.1,"reset_after_seconds":2,"delay_seconds":0,"rule":"example","source":"store"}`)
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q, want 1", got)
		}
		wantReply(t, post(s, "/v1/take", `{"rule":"example","key":"user:2"}`), http.StatusOK, allowedFirst)
	})
}

func TestTakeUnderAnyContentType(t *testing.T) {
	s := newTestServer(t, nil)
	for _, kind := range []string{"", "application/json", "application/x-www-form-urlencoded", "text/plain"} {
		wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"`+kind+`"}`, "Content-Type", kind), http.StatusOK)
	}
}

func TestTakeForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		for _, c := range []struct {
			body   string
			status int
			has    string
		}{
			{`{"rule":"example","key":"a","cost":20}`, 200, `"remaining":0`},
			{`{"rule":"example","key":"a","cost":0}`, 429, `"remaining":0`},
			{`{"rule":"example","key":""}`, 200, `"remaining":19`},
			{`{"rule":"example","key":"b","cost":null,"attributes":null,"reserve":null}`, 200, `"remaining":19`},
			{`{"rule":"example","key":"c","cost":21}`, 429, `"retry_after_seconds":null`},
			{`{"rule":"example","key":"c","cost":9007199254740991}`, 429, `"retry_after_seconds":null`},
			{`{"rule":"global"}`, 200, `"remaining":29`},
			{`{"rule":"global","key":null}`, 200, `"remaining":28`},
			{`{"rule":"pair","key":["t","u"]}`, 200, `"remaining":19`},
			{`{"rule":"pair","key":["",""]}`, 200, `"remaining":19`},
			{`{"rule":"open","key":"x"}`, 200, `"limit":null,"remaining":null`},
			{`{"rule":"open","key":"x"}`, 200, `"source":"unlimited"`},
			{`{"rule":"closed","key":"x"}`, 429, `"retry_after_seconds":null`},
			{" \n" + `{"rule":"example","key":"d"}` + "\r\n", 200, `"remaining":19`},
		} {
			w := post(s, "/v1/take", c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
				t.Errorf("%s: got %d %s, want %d and %s", c.body, w.Code, w.Body, c.status, c.has)
			}
		}
	})
}

// A take by rule and key names the same bucket as one by attributes does.
func TestTakeByAttributesChargesAllRulesThatFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		remaining := func(body, want string) {
			t.Helper()
			if w := post(s, "/v1/peek", body); !strings.Contains(w.Body.String(), `"remaining":`+want+`,`) {
				t.Errorf("peek %s: %s, want %s remaining", body, w.Body, want)
			}
		}
		wantStatus(t, post(s, "/v1/take", `{"attributes":{"key":"k","tenant":"t","user":"u","extra":"x"},"cost":3}`), http.StatusOK)
		remaining(`{"rule":"example","key":"k"}`, "17")
		remaining(`{"rule":"global"}`, "27")
		remaining(`{"rule":"pair","key":["t","u"]}`, "17")

		// pair needs both of its attributes; without the one it is not this request's rule.
		wantStatus(t, post(s, "/v1/take", `{"attributes":{"user":"u"},"cost":3}`), http.StatusOK)
		remaining(`{"rule":"global"}`, "24")
		remaining(`{"rule":"pair","key":["t","u"]}`, "17")

		// All or nothing: example has 17 left, global 24.
		w := post(s, "/v1/take", `{"attributes":{"key":"k"},"cost":18}`)
		wantStatus(t, w, http.StatusTooManyRequests)
		if !strings.Contains(w.Body.String(), `"rule":"example"`) || w.Header().Get("Retry-After") != "1" {
			t.Errorf("the refusing rule is example: %v %s", w.Header(), w.Body)
		}
		remaining(`{"rule":"global"}`, "24")
		remaining(`{"attributes":{"key":"k","tenant":"t","user":"u"}}`, "24") // global has the smallest share left
	})
}

func TestTakeThatNoRuleMatchesIsAllowed(t *testing.T) {
	s := newTestServer(t, &Config{})
	const unlimited = `{"allowed":true,"limit":null,"remaining":null,"retry_after_seconds":0,"reset_after_seconds":0,"delay_seconds":0,"rule":"","source":"unlimited"}`
	wantReply(t, post(s, "/v1/take", `{"attributes":{"user":"u"}}`), http.StatusOK, unlimited)
	wantReply(t, post(s, "/v1/take", `{"attributes":{}}`), http.StatusOK, unlimited)
	wantReply(t, post(s, "/v1/peek", `{"attributes":{}}`), http.StatusOK, unlimited)
}

func TestPeekChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		const full = `{"allowed":true,"limit":20,"remaining":20,"retry_after_seconds":0,"reset_after_seconds":0,"delay_seconds":0,"rule":"example","source":"store"}`
		for range 30 {
			wantReply(t, post(s, "/v1/peek", `{"rule":"example","key":"k"}`), http.StatusOK, full)
			wantReply(t, post(s, "/v1/peek", `{"attributes":{"key":"k"}}`), http.StatusOK, full)
		}
		wantStatus(t, post(s, "/v1/peek", `{"rule":"permits","key":"k"}`), http.StatusOK)
		wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"k","cost":20}`), http.StatusOK)
		w := post(s, "/v1/peek", `{"rule":"example","key":"k"}`)
		wantStatus(t, w, http.StatusTooManyRequests)
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After of a refused peek is %q", w.Header().Get("Retry-After"))
		}
		<-time.After(100 * time.Millisecond) // virtual
		wantStatus(t, post(s, "/v1/peek", `{"rule":"example","key":"k"}`), http.StatusOK)
	})
}

func TestResetAndRefundNeedTheToken(t *testing.T) {
	s := newTestServer(t, nil)
	wantStatus(t, post(s, "/v1/take", `{"rule":"day","key":"k"}`), http.StatusOK)
	wantStatus(t, post(s, "/v1/take", `{"rule":"day","key":"k"}`), http.StatusTooManyRequests)

	const reset, refund = `{"rule":"day","key":"k"}`, `{"rule":"day","key":"k","cost":-1}`
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + testToken + "x", "Basic " + testToken, testToken} {
		for path, body := range map[string]string{"/v1/reset": reset, "/v1/take": refund} {
			w := post(s, path, body, "Authorization", header)
			wantError(t, w, http.StatusUnauthorized, "token")
			if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="tidegate"` {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		}
	}
	wantStatus(t, post(s, "/v1/take", `{"rule":"day","key":"k"}`), http.StatusTooManyRequests)
	wantStatus(t, withToken(s, "/v1/take", refund), http.StatusOK)
	wantStatus(t, post(s, "/v1/take", `{"rule":"day","key":"k"}`), http.StatusOK)
	wantReply(t, post(s, "/v1/reset", reset, "Authorization", "bearer  "+testToken), http.StatusOK, `{"reset":true}`)
	wantStatus(t, post(s, "/v1/take", `{"rule":"day","key":"k"}`), http.StatusOK)

	none := newTestServer(t, &Config{})
	for _, token := range []string{"", "Bearer ", "Bearer x"} {
		wantError(t, post(none, "/v1/reset", `{"rule":"example","key":"k"}`, "Authorization", token), http.StatusForbidden, "--token-file")
		wantError(t, post(none, "/v1/take", `{"rule":"example","key":"k","cost":-1}`, "Authorization", token), http.StatusForbidden, "TIDEGATE_TOKEN")
	}
}

func wantStatus(tb testing.TB, w *httptest.ResponseRecorder, status int) {
	tb.Helper()
	if w.Code != status {
		tb.Errorf("got %d %s, want %s", w.Code, w.Body, strconv.Itoa(status))
	}
}
