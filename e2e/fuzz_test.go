package e2e

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// says is a decider that always says the same.
type says tidegate.Decision

func (s says) Decide(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
	return tidegate.Decision(s), nil
}

// What the middleware writes, a parser of structured fields reads, and it is what was decided.
func FuzzRateLimitWriting(f *testing.F) {
	f.Add("api", int64(100), int64(50), int64(1500), true)
	f.Add("10/s burst 20", int64(0), int64(0), int64(math.MaxInt64-1), false)
	f.Add(`"\ü%`+"\x00\xff", int64(math.MaxInt64-1), int64(math.MaxInt64-1), int64(0), true)
	f.Fuzz(func(t *testing.T, rule string, limit, remaining, ms int64, allowed bool) {
		if limit < 0 || remaining < 0 || ms < 0 {
			return // a decision has none
		}
		d := tidegate.Decision{Allowed: allowed, Limit: limit, Remaining: remaining, Rule: rule}
		wait := time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)-1)) * time.Millisecond
		if allowed {
			d.ResetAfter = wait
		} else {
			d.RetryAfter = wait
		}
		w := httptest.NewRecorder()
		middleware(t, says(d), nil).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if limit == tidegate.NoLimit {
			if w.Header().Get("RateLimit") != "" {
				t.Errorf("%v", w.Header())
			}
			return
		}
		const largest = 999_999_999_999_999
		policy := item(t, w.Header()["Ratelimit-Policy"], rule)
		if q, ok := policy.Get("q"); !ok || q != min(limit, largest) {
			t.Errorf("q is %v, of a limit of %d", q, limit)
		}
		available := item(t, w.Header()["Ratelimit"], rule)
		if r, ok := available.Get("r"); !ok || r != min(remaining, largest) {
			t.Errorf("r is %v, of %d", r, remaining)
		}
		seconds := min(int64(math.Ceil(wait.Seconds())), 1<<31-1)
		if v, ok := available.Get("t"); ok && v != seconds || ok != (seconds > 0) {
			t.Errorf("t is %v, of %v", v, wait)
		}
	})
}

// item returns the parameters of the only item of a list, whose value is the rule.
func item(t *testing.T, lines []string, rule string) *httpsfv.Params {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) != 1 {
		t.Fatalf("%q is no list of one item: %v", lines, err)
	}
	i, ok := list[0].(httpsfv.Item)
	if !ok {
		t.Fatalf("%q is no item", lines)
	}
	name, ok := i.Value.(string)
	if !ok {
		t.Fatalf("%q is no string", lines)
	}
	if got, err := url.PathUnescape(name); err != nil || got != rule {
		t.Errorf("the rule is %q, %v; want %q", got, err, rule)
	}
	return i.Params
}

// answers is a server that always answers the same.
type answers http.Header

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header(a), Body: http.NoBody}, nil
}

// What the transport makes of a RateLimit field is what a parser of structured fields makes of it: the longest time of
// those of which nothing is left, and nothing of one that is malformed.
func FuzzRateLimitReading(f *testing.F) {
	for _, s := range []string{
		`"api";r=0;t=30`, `"a";r=5;t=60, "b";r=0;t=3;pk=:YQ==:`, `a;r=0;t=1`, `"a" ; r=0`, `"a";r=0;t=3,`, `1.5;r=0;t=2;r=1`, `?1;r=0;t=1;x`,
		`"\"";t=1;r=0`, `@12;r=0;t=1`, `("a" "b");r=0;t=1`, `*a/b:c;r=0;t=999999999999999`, `"a";r=-0;t=1`,
		`"a";r=1.5;r=0;t=3`, `"a";r=0;t=3;t`, `"a";p=:Y=:;r=0;t=1`, `%"f%c3%bc";r=0;t=1`, `%"%FC";r=0;t=1`, "\"a\"\t,\t\"b\";r=0;t=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		want := longest(field)
		tr, err := httplimit.NewTransport(&httplimit.TransportConfig{
			Base: answers{"Ratelimit": {field}}, Refuse: true, MaxPause: math.MaxInt64,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "http://api.example.com/", nil)
		if _, err := tr.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		got := time.Duration(0)
		_, err = tr.RoundTrip(r)
		if limited, ok := errors.AsType[*httplimit.LimitedError](err); ok {
			got = limited.RetryAfter
		}
		if d := want - got; d < 0 || d > 10*time.Second || got == 0 && want > 0 {
			t.Errorf("%q is a pause of %v, want %v", field, got, want)
		}
	})
}

// longest is what the field says by the other parser. Inner lists have no place in it.
func longest(field string) time.Duration {
	list, err := httpsfv.UnmarshalList([]string{field})
	if err != nil {
		return 0
	}
	t := int64(0)
	for _, member := range list {
		i, ok := member.(httpsfv.Item)
		if !ok {
			return 0
		}
		r, hasR := i.Params.Get("r")
		w, hasT := i.Params.Get("t")
		for _, v := range []any{r, w} {
			if n, ok := v.(int64); v != nil && (!ok || n < 0) {
				return 0 // of another type
			}
		}
		if hasR && hasT && r == int64(0) {
			t = max(t, w.(int64))
		}
	}
	return time.Duration(min(t, math.MaxInt64/int64(time.Second))) * time.Second
}
