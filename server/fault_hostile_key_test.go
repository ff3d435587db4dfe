package server

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// Spaces and control characters in keys broke back ends, or made two keys one (RB-124). Any text is a key here, has one
// bucket, and shares it with no other; bytes that are no text are refused, as JSON would make them all the same one.
func TestAnyTextIsAKeyOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		keys := []string{
			"a b\r\nSET x 1", "a b", "a\x00b", "a", "", "😀", "a/b", "a%2Fb", "a_b", "{a}",
			strings.Repeat("k", 300), strings.Repeat("k", 301), strings.Repeat("ж", 300),
		}
		for cost := range 3 {
			for _, k := range keys {
				w := post(s, "/v1/take", `{"rule":"example","key":`+quoted(t, k)+`}`)
				want := []string{`"remaining":19`, `"remaining":18`, `"remaining":17`}[cost]
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("take %d of %.20q: %s", cost+1, k, w.Body)
				}
			}
		}
		pairs := [][2]string{{"a_b", "c"}, {"a", "b_c"}, {"a/b", "c"}, {"a", "b/c"}, {"a%", "c"}, {"", "a"}, {"a", ""}}
		for _, p := range pairs {
			w := post(s, "/v1/take", `{"rule":"pair","key":[`+quoted(t, p[0])+`,`+quoted(t, p[1])+`]}`)
			if !strings.Contains(w.Body.String(), `"remaining":19`) {
				t.Errorf("first take of %q: %s", p, w.Body)
			}
		}
		for _, body := range []string{"{\"rule\":\"example\",\"key\":\"\xff\"}", `{"rule":"example","key":"\ud800"}`} {
			wantError(t, post(s, "/v1/take", body), http.StatusBadRequest, "not JSON")
		}
	})
}
