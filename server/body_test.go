package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestMalformedBodies(t *testing.T) {
	s := newTestServer(t, nil)
	for _, c := range []struct{ path, body, says string }{
		{"/v1/take", ``, `the body is empty`},
		{"/v1/take", " \n", `the body is empty`},
		{"/v1/take", `{`, `the body is not JSON`},
		{"/v1/take", `[]`, `must be an object`},
		{"/v1/take", `null`, `give the one or the other`},
		{"/v1/take", `7`, `must be an object`},
		{"/v1/take", `{}`, `give the one or the other`},
		{"/v1/take", `{"key":"k"}`, `give the one or the other`},
		{"/v1/take", `{"rule":"example","key":"k"} {}`, `after top-level value`},
		{"/v1/take", `{"rule":"example","key":"k"}]`, `after top-level value`},
		{"/v1/take", `{"rule":"example","key":"k","costs":1}`, `\"costs\" is unknown: the members are rule, key, attributes, cost, reserve`},
		{"/v1/take", `{"Rule":"example","key":"k"}`, `\"Rule\" is unknown`},
		{"/v1/take", `{"rule":"example","key":"k","key":"l"}`, `\"key\" is given twice`},
		{"/v1/take", `{"attributes":{"key":"k","key":"l"}}`, `\"key\" is given twice`},
		{"/v1/take", `{"rule":7,"key":"k"}`, `\"rule\" must be a string`},
		{"/v1/take", `{"rule":"example","key":"k","cost":"1"}`, `\"cost\" must be a whole number`},
		{"/v1/take", `{"rule":"example","key":"k","cost":1.5}`, `\"cost\" must be a whole number`},
		{"/v1/take", `{"rule":"example","key":"k","cost":99999999999999999999}`, `\"cost\" must be a whole number below`},
		{"/v1/take", `{"rule":"example","key":"k","cost":9007199254740992}`, `must be below 9007199254740992`},
		{"/v1/take", `{"rule":"example","key":"k","cost":-9007199254740992}`, `must be below 9007199254740992`},
		{"/v1/take", `{"rule":"example","key":"k","cost":-9223372036854775808}`, `must be below 9007199254740992`},
		{"/v1/take", `{"rule":"example","key":"k","reserve":1}`, `\"reserve\" must be true or false`},
		{"/v1/take", `{"attributes":7}`, `\"attributes\" must be an object of strings`},
		{"/v1/take", `{"attributes":{"key":7}}`, `\"attributes.key\" must be a string`},
		{"/v1/take", `{"attributes":{},"rule":"example"}`, `give the one or the other`},
		{"/v1/take", `{"attributes":{},"key":"k"}`, `give the one or the other`},
		{"/v1/take", `{"attributes":{},"reserve":true}`, `\"reserve\" needs a \"rule\"`},
		{"/v1/take", `{"attributes":{"job":"j"}}`, `take one with /v1/acquire`},
		{"/v1/take", `{"rule":"permits","key":"k"}`, `take one with /v1/acquire`},
		{"/v1/take", `{"rule":"permits","key":"k","reserve":true}`, `take one with /v1/acquire`},
		{"/v1/take", `{"rule":"log","key":"k","reserve":true}`, `cannot do this`},
		{"/v1/take", `{"rule":"example","key":"k","reserve":true,"cost":0}`, `a \"cost\" of at least 1`},
		{"/v1/peek", `{}`, `\"rule\" is missing`},
		{"/v1/peek", `{"rule":"example","key":"k","cost":1}`, `\"cost\" is unknown: the members are rule, key, attributes`},
		{"/v1/peek", `{"rule":"example","attributes":{}}`, `give the one or the other`},
		{"/v1/acquire", `{}`, `\"rule\" is missing`},
		{"/v1/acquire", `{"rule":"example","key":"k"}`, `charge it with /v1/take`},
		{"/v1/acquire", `{"rule":"permits","key":"k","cost":0}`, `at least 1`},
		{"/v1/acquire", `{"rule":"permits","key":"k","cost":-1}`, `at least 1`},
		{"/v1/settle", `{"cost":1}`, `\"id\" is missing`},
		{"/v1/settle", `{"id":"x"}`, `\"cost\" must be`},
		{"/v1/settle", `{"id":"x","cost":-1}`, `\"cost\" must be`},
		{"/v1/settle", `{"id":"x","cost":1}`, `\"id\" is not one`},
		{"/v1/renew", `{}`, `\"id\" is missing`},
		{"/v1/renew", `{"id":""}`, `\"id\" is not one`},
		{"/v1/release", `{"id":"../../x"}`, `\"id\" is not one`},
		{"/v1/release", `{"id":7}`, `\"id\" must be a string`},
	} {
		w := post(s, c.path, c.body)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s %s: got %d, want 400", c.path, c.body, w.Code)
		}
		wantError(t, w, http.StatusBadRequest, c.says)
	}
}

// The key must have the form that the rule's key parts give it, and the answer says which.
func TestKeyMustFitTheRule(t *testing.T) {
	s := newTestServer(t, nil)
	const (
		one  = `rule \"example\" has one key part, key: send \"key\" as a string`
		two  = `rule \"pair\" has the key parts tenant, user: send \"key\" as an array of 2 strings in this order`
		none = `rule \"global\" has no key part: leave \"key\" out`
		form = `\"key\" must be a string, or an array of strings`
	)
	for _, c := range []struct{ body, says string }{
		{`{"rule":"example"}`, one},
		{`{"rule":"example","key":null}`, one},
		{`{"rule":"example","key":["k"]}`, one},
		{`{"rule":"example","key":[]}`, one},
		{`{"rule":"example","key":["k","l"]}`, one},
		{`{"rule":"pair"}`, two},
		{`{"rule":"pair","key":"t"}`, two},
		{`{"rule":"pair","key":["t"]}`, two},
		{`{"rule":"pair","key":["t","u","v"]}`, two},
		{`{"rule":"global","key":""}`, none},
		{`{"rule":"global","key":[]}`, none},
		{`{"rule":"example","key":7}`, form},
		{`{"rule":"example","key":true}`, form},
		{`{"rule":"example","key":{"a":"b"}}`, form},
		{`{"rule":"pair","key":["t",7]}`, form},
		{`{"rule":"pair","key":["t",null]}`, form},
		{`{"rule":"pair","key":["t",["u"]]}`, form},
	} {
		wantError(t, post(s, "/v1/take", c.body), http.StatusBadRequest, c.says)
		wantError(t, withToken(s, "/v1/reset", c.body), http.StatusBadRequest, c.says)
	}
}

func TestBodyAboveItsBoundIs413(t *testing.T) {
	s := newTestServer(t, nil)
	const around = len(`{"rule":"example","key":""}`)
	wantStatus(t, post(s, "/v1/take", `{"rule":"example","key":"`+strings.Repeat("k", maxBody-around)+`"}`), http.StatusOK)
	wantError(t, post(s, "/v1/take", `{"rule":"example","key":"`+strings.Repeat("k", maxBody-around+1)+`"}`),
		http.StatusRequestEntityTooLarge, "above 64 KiB")
	wantError(t, post(s, "/v1/renew", `{"id":"`+strings.Repeat("k", maxIDBody)+`"}`), http.StatusRequestEntityTooLarge, "above 128 KiB")
}

func TestUnknownRuleIs404(t *testing.T) {
	s := newTestServer(t, nil)
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/acquire", "/v1/reset"} {
		wantError(t, withToken(s, path, `{"rule":"exmaple","key":"k"}`), http.StatusNotFound, `there is no rule \"exmaple\"`)
		wantError(t, withToken(s, path, `{"rule":""}`), http.StatusNotFound, `there is no rule \"\"`)
	}
}

func FuzzTakeBody(f *testing.F) {
	for _, body := range []string{
		`{"rule":"example","key":"user:1"}`,
		`{"rule":"pair","key":["a","b"],"cost":2,"reserve":true}`,
		`{"attributes":{"key":"k","tenant":"t","user":"u","job":null},"cost":0}`,
		`{"rule":"permits","key":"k","cost":1}`,
		`{"id":"AUE","cost":3}`,
		`{"rule":"example","key":"\u0000\ud83d\ude00","cost":-1}`,
		"{\"rule\":\"example\",\"key\":\"\xff\"}",
	} {
		f.Add(body, uint8(0))
	}
	paths := []string{"/v1/take", "/v1/peek", "/v1/acquire", "/v1/settle", "/v1/renew", "/v1/release", "/v1/reset"}
	s := newTestServer(f, nil)
	f.Fuzz(func(t *testing.T, body string, path uint8) {
		checkReply(t, withToken(s, paths[int(path)%len(paths)], body))
	})
}
