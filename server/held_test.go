package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// idOf returns the id of an allowed answer.
func idOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var reply struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != http.StatusOK || reply.ID == "" {
		t.Fatalf("no id in %d %s", w.Code, w.Body)
	}
	return reply.ID
}

// remaining peeks at a bucket.
func remaining(t *testing.T, s *Server, rule, key string) float64 {
	t.Helper()
	var reply struct{ Remaining float64 }
	w := post(s, "/v1/peek", `{"rule":"`+rule+`","key":"`+key+`"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatal(err, w.Body)
	}
	return reply.Remaining
}

// Any replica settles what another one reserved, once, and to the true cost.
func TestReservationIsSettledByAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		one, two := newServerOn(t, store, nil), newServerOn(t, store, nil)

		id := idOf(t, post(one, "/v1/take", `{"rule":"example","key":"k","cost":15,"reserve":true}`))
		if got := remaining(t, two, "example", "k"); got != 5 {
			t.Errorf("%v remain of 20 with 15 reserved", got)
		}
		settle := `{"id":"` + id + `","cost":3}`
		wantReply(t, post(two, "/v1/settle", settle), http.StatusOK, `{"settled":true}`)
		if got := remaining(t, one, "example", "k"); got != 17 {
			t.Errorf("%v remain of 20 with 3 settled", got)
		}
		for _, s := range []*Server{one, two} {
			wantError(t, post(s, "/v1/settle", settle), http.StatusNotFound, "settled or released before")
		}

		// A reservation for later says when it may start; cancelling gives all of it back.
		w := post(one, "/v1/take", `{"rule":"example","key":"k","cost":19,"reserve":true}`)
		if !strings.Contains(w.Body.String(), `"delay_seconds":0.2`) {
			t.Errorf("19 of 17 should start in 200ms: %s", w.Body)
		}
		wantStatus(t, post(two, "/v1/settle", `{"id":"`+idOf(t, w)+`","cost":0}`), http.StatusOK)
		if got := remaining(t, one, "example", "k"); got != 17 {
			t.Errorf("%v remain of 20 after a cancel", got)
		}
	})
}

func TestReservationLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		id := idOf(t, post(s, "/v1/take", `{"rule":"example","key":"k","reserve":true}`))
		<-time.After(61 * time.Minute) // virtual
		wantError(t, post(s, "/v1/settle", `{"id":"`+id+`","cost":0}`), http.StatusNotFound, "lapsed")
	})
}

func TestPermitsAreHeldRenewedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		one, two := newServerOn(t, store, nil), newServerOn(t, store, nil)
		const acquire = `{"rule":"permits","key":"k"}`

		first := idOf(t, post(one, "/v1/acquire", acquire))
		second := idOf(t, post(two, "/v1/acquire", acquire))
		w := post(one, "/v1/acquire", acquire)
		wantStatus(t, w, http.StatusTooManyRequests)
		if strings.Contains(w.Body.String(), `"id"`) || w.Header().Get("Retry-After") != "60" {
			t.Errorf("a refused permit: %v %s", w.Header(), w.Body)
		}

		<-time.After(40 * time.Second) // virtual; a permit is held for 60 s
		wantReply(t, post(two, "/v1/renew", `{"id":"`+first+`"}`), http.StatusOK, `{"renewed":true}`)
		<-time.After(40 * time.Second)
		wantError(t, post(one, "/v1/renew", `{"id":"`+second+`"}`), http.StatusNotFound, "lapsed")
		wantReply(t, post(one, "/v1/release", `{"id":"`+first+`"}`), http.StatusOK, `{"released":true}`)
		wantError(t, post(two, "/v1/release", `{"id":"`+first+`"}`), http.StatusNotFound, "released before")
		wantStatus(t, post(one, "/v1/acquire", `{"rule":"permits","key":"k","cost":2}`), http.StatusOK)
	})
}

// Where nothing is held there is no id, so that nobody renews what is not there.
func TestNothingHeldHasNoID(t *testing.T) {
	s := newTestServer(t, nil)
	for _, c := range []struct{ path, body string }{
		{"/v1/acquire", `{"rule":"open","key":"k"}`},
		{"/v1/take", `{"rule":"open","key":"k","reserve":true}`},
		{"/v1/acquire", `{"rule":"closed","key":"k"}`},
		{"/v1/take", `{"rule":"example","key":"k","reserve":true,"cost":1000}`},
		{"/v1/take", `{"rule":"example","key":"k"}`},
	} {
		if w := post(s, c.path, c.body); strings.Contains(w.Body.String(), `"id"`) {
			t.Errorf("%s %s: %s", c.path, c.body, w.Body)
		}
	}
}

// A key that fills a body gives an id that fits into one.
func TestIDOfTheLongestKeyCanBeSent(t *testing.T) {
	s := newTestServer(t, nil)
	id := idOf(t, post(s, "/v1/acquire", `{"rule":"permits","key":"`+strings.Repeat("/", maxBody-40)+`"}`))
	wantStatus(t, post(s, "/v1/renew", `{"id":"`+id+`"}`), http.StatusOK)
	wantStatus(t, post(s, "/v1/release", `{"id":"`+id+`"}`), http.StatusOK)
}

func TestIDOfARuleThatChanged(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	before := newServerOn(t, store, nil)
	id := idOf(t, post(before, "/v1/acquire", `{"rule":"permits","key":"k"}`))
	gone := newServerOn(t, store, &Config{})
	wantError(t, post(gone, "/v1/release", `{"id":"`+id+`"}`), http.StatusNotFound, `no rule \"permits\" any more`)
	other := newServerOn(t, store, &Config{Rules: []Rule{{
		Name: "permits", Limit: tidegate.Limit{Rate: 2, Algorithm: tidegate.Concurrency},
	}}})
	wantError(t, post(other, "/v1/release", `{"id":"`+id+`"}`), http.StatusNotFound, "nothing is held")
	wantStatus(t, post(before, "/v1/release", `{"id":"`+id+`"}`), http.StatusOK)
}
