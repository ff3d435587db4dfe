package httplimittest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// fields are headers, by name and value in turn.
func fields(nameValue ...string) map[string]string {
	m := make(map[string]string, len(nameValue)/2)
	for pair := range slices.Chunk(nameValue, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

// tells are the fields of a request that passes.
func tells(policy, rateLimit string) map[string]string {
	return fields("RateLimit-Policy", policy, "RateLimit", rateLimit)
}

// refusal are the fields of one that does not.
func refusal(policy, rateLimit, retryAfter string) map[string]string {
	m := fields("RateLimit-Policy", policy, "RateLimit", rateLimit, "Cache-Control", "no-store", "Content-Type", httplimit.ContentType)
	if retryAfter != "" {
		m["Retry-After"] = retryAfter
	}
	return m
}

// decided is a decider that always says the same.
type decided struct {
	decision tidegate.Decision
	err      error
}

// Decide says it.
func (d decided) Decide(context.Context, tidegate.Attributes, int64) (tidegate.Decision, error) {
	return d.decision, d.err
}

// The limit of most cases lets one pass in a minute.
const (
	once       = "1/min"
	oncePolicy = `"api";q=1;w=60`
	onceLeft   = `"api";r=0;t=60`
)

var (
	passes = step{fields: tells(oncePolicy, onceLeft), body: "ok"}
	denied = step{status: http.StatusTooManyRequests, fields: refusal(oncePolicy, onceLeft, "60")}
)

// with returns the step for another path, and with headers, by name and value in turn; a name may come again.
func (s step) with(method, path string, nameValue ...string) step {
	s.method, s.path = method, path
	if method == http.MethodHead || path != "" {
		s.body = ""
	}
	s.header = make(http.Header)
	for pair := range slices.Chunk(nameValue, 2) {
		s.header[pair[0]] = append(s.header[pair[0]], pair[1])
	}
	return s
}

func table() []testCase {
	return append(append(limits(), keys()...), options()...)
}

// limits are about what is told of the decision.
func limits() []testCase {
	return []testCase{
		{
			name: "what remains is told", limit: "10/s burst 20",
			steps: []step{
				{fields: tells(`"api";q=20;w=2`, `"api";r=19;t=1`), body: "ok"},
				{fields: tells(`"api";q=20;w=2`, `"api";r=18;t=1`), body: "ok"},
			},
		},
		{
			name: "a refusal says when, and why", limit: once,
			steps: []step{passes, {
				status: http.StatusTooManyRequests, fields: refusal(oncePolicy, onceLeft, "60"),
				body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
					`"detail":"The limit is reached. Try again in 60 seconds.","violated-policies":["api"]}` + "\n",
			}},
		},
		{
			name: "a wait below a second is a second", limit: "10/s burst 1",
			steps: []step{
				{fields: tells(`"api";q=1;w=1`, `"api";r=0;t=1`)},
				{
					status: http.StatusTooManyRequests, fields: refusal(`"api";q=1;w=1`, `"api";r=0;t=1`, "1"),
					body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
						`"detail":"The limit is reached. Try again in a second.","violated-policies":["api"]}` + "\n",
				},
			},
		},
		{
			name: "what cannot ever pass has no Retry-After", limit: "none",
			steps: []step{{
				status: http.StatusTooManyRequests, fields: refusal(`"api";q=0`, `"api";r=0`, ""),
				body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
					`"detail":"A request like this one can never pass.","violated-policies":["api"]}` + "\n",
			}},
		},
		{
			name: "where nothing limits, nothing is told", limit: "unlimited",
			steps: []step{{body: "ok"}, {path: "/left", body: "no limit by api"}},
		},
		{
			name: "the windows of other algorithms", limit: "5/h fixed-window",
			steps: []step{{fields: tells(`"api";q=5;w=3600`, `"api";r=4;t=3600`)}},
		},
		{
			name: "a rule refuses for want of a store",
			decider: decided{decision: tidegate.Decision{
				Source: tidegate.SourceFallback, RetryAfter: 1500 * time.Millisecond, Rule: "api",
			}},
			steps: []step{{
				status: http.StatusServiceUnavailable,
				fields: fields("Retry-After", "2", "Cache-Control", "no-store", "Content-Type", httplimit.ContentType),
				body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporarily not available",` +
					`"status":503,"detail":"The service cannot take the request now. Try again in 2 seconds.","violated-policies":["api"]}` + "\n",
			}},
		},
		{
			name:    "no decision is a 503",
			decider: decided{err: &tidegate.StoreError{Op: "take", Err: errors.New("secret of the house")}},
			steps: []step{{
				status: http.StatusServiceUnavailable,
				fields: fields("Retry-After", "1", "Cache-Control", "no-store", "Content-Type", httplimit.ContentType),
				body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporarily not available",` +
					`"status":503,"detail":"The service cannot take the request now. Try again in a second."}` + "\n",
			}},
		},
		{
			name:    "no decision, and open",
			decider: decided{err: &tidegate.StoreError{Op: "take", Err: errors.New("away")}},
			config:  httplimit.Config{FailOpen: true},
			steps:   []step{{body: "ok"}, {path: "/left", body: "no decision"}},
		},
		{
			name: "names and numbers that need care",
			decider: decided{decision: tidegate.Decision{
				Allowed: true, Limit: math.MaxInt64 - 1, Remaining: math.MaxInt64 - 1, Rule: `a "rule" of 100% ü\`, ResetAfter: math.MaxInt64 - 1,
			}},
			steps: []step{{fields: tells(
				`"a \"rule\" of 100%25 %C3%BC\\";q=999999999999999`, `"a \"rule\" of 100%25 %C3%BC\\";r=999999999999999;t=2147483647`,
			)}},
		},
		{
			name:    "a wait of centuries fits in 32 bits",
			decider: decided{decision: tidegate.Decision{RetryAfter: math.MaxInt64 - 1, Limit: 1, Rule: "api"}},
			steps:   []step{{status: http.StatusTooManyRequests, fields: refusal(`"api";q=1`, `"api";r=0;t=2147483647`, "2147483647")}},
		},
	}
}

// keys are about what is one bucket, and what is not.
func keys() []testCase {
	trusting := httplimit.Config{ClientIP: &clientip.Config{Trusted: []string{"loopback"}}}
	const xff = "X-Forwarded-For"
	return []testCase{
		{name: "HEAD is GET", limit: once, keyBy: "method", steps: []step{
			passes, denied.with(http.MethodHead, ""), passes.with(http.MethodPost, ""),
		}},
		{name: "a path is one, however it is written", limit: once, keyBy: "path", steps: []step{
			passes, denied.with("", "//ok"), denied.with("", "/x/../ok"), denied.with("", "/%6Fk"), denied.with("", "/ok?query"),
			passes.with("", "/other"),
		}},
		{name: "a host is one, however it is written", limit: once, keyBy: "host", steps: []step{
			passes.with("", "", "Host", "api.example.com"), denied.with("", "", "Host", "API.Example.com:8080"),
			passes.with("", "", "Host", "example.com"),
		}},
		{name: "by header", limit: once, keyBy: "header.x-api-key", steps: []step{
			passes.with("", "", "X-Api-Key", "a"), denied.with("", "", "X-Api-Key", "a", "X-Api-Key", "b"),
			passes.with("", "", "X-Api-Key", "b"), {}, {},
		}},
		{name: "by query", limit: once, keyBy: "query.user id", steps: []step{
			passes.with("", "/ok?user%20id=%61"), denied.with("", "/ok?x=1&user+id=a&user+id=b"), passes.with("", "/ok?user+id=b"), {},
		}},
		{name: "by cookie", limit: once, keyBy: "cookie.session", steps: []step{
			passes.with("", "", "Cookie", "theme=dark; session=1"), denied.with("", "", "Cookie", "session=1"),
			passes.with("", "", "Cookie", "session=2"), {},
		}},
		{name: "by an attribute of your own", limit: once, keyBy: "user", config: httplimit.Config{
			Attribute: func(r *http.Request, name string) (string, bool) {
				return r.Header.Get("X-User"), name == "user" && r.Header.Get("X-User") != ""
			},
		}, steps: []step{passes.with("", "", "X-User", "ann"), denied.with("", "", "X-User", "ann"), passes.with("", "", "X-User", "ben"), {}}},
		{name: "an attribute that is required", limit: once, keyBy: "header.x-api-key", config: httplimit.Config{
			Require: []string{"header.x-api-key"},
		}, steps: []step{passes.with("", "", "X-Api-Key", "a"), {
			status: http.StatusBadRequest, fields: fields("Cache-Control", "no-store", "Content-Type", httplimit.ContentType),
			body: `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request lacks header.x-api-key, by which it is limited."}` + "\n",
		}}},
		{name: "X-Forwarded-For of nobody who is trusted", limit: once, steps: []step{
			passes.with("", "", xff, "203.0.113.1"), denied.with("", "", xff, "203.0.113.2"), denied,
		}},
		{name: "X-Forwarded-For of a trusted proxy", limit: once, config: trusting, steps: []step{
			passes.with("", "", xff, "203.0.113.1"), denied.with("", "", xff, "203.0.113.1"),
			denied.with("", "", xff, "198.51.100.9, 203.0.113.1:4711"), denied.with("", "", xff, "198.51.100.9", xff, "::ffff:203.0.113.1, 127.0.0.1"),
			passes.with("", "", xff, "203.0.113.2"),
		}},
		{name: "IPv6 by /64", limit: once, config: trusting, steps: []step{
			passes.with("", "", xff, "2001:db8:1:2::1"), denied.with("", "", xff, "[2001:db8:1:2:ffff::9]:443"),
			passes.with("", "", xff, "2001:db8:1:3::1"),
		}},
		{name: "Forwarded of the last hop", limit: once, config: httplimit.Config{ClientIP: &clientip.Config{Hops: 1, Header: "Forwarded"}}, steps: []step{
			passes.with("", "", "Forwarded", `for=203.0.113.1`), denied.with("", "", "Forwarded", `for="open, for="203.0.113.1:80";proto=https`),
			passes.with("", "", "Forwarded", `for=203.0.113.1, for="[2001:db8::1]"`),
		}},
	}
}

// options are about the config.
func options() []testCase {
	const origin, asks = "Origin", "Access-Control-Request-Method"
	return []testCase{
		{name: "preflights are not charged", limit: once, steps: []step{
			step{}.with(http.MethodOptions, "", origin, "https://example.com", asks, "PUT"),
			step{}.with(http.MethodOptions, "", origin, "https://example.com", asks, "PUT"),
			passes.with(http.MethodOptions, "", origin, "https://example.com"), // without the other header it is none
			denied,
			denied.with(http.MethodPost, "", origin, "https://example.com", asks, "PUT"), // nor with another method
			step{}.with(http.MethodOptions, "", origin, "https://example.com", asks, "PUT"),
		}},
		{name: "preflights are charged when told", limit: once, config: httplimit.Config{ChargePreflights: true}, steps: []step{
			passes.with(http.MethodOptions, "", origin, "https://example.com", asks, "PUT"),
			denied.with(http.MethodOptions, "", origin, "https://example.com", asks, "PUT"),
		}},
		{name: "skipped", limit: once, config: httplimit.Config{
			Skip: func(r *http.Request) bool { return r.URL.Path == "/other" },
		}, steps: []step{passes, {path: "/other"}, denied, {path: "/other"}}},
		{name: "by cost", limit: "10/min", config: httplimit.Config{
			Cost: func(r *http.Request) int64 { return r.ContentLength + int64(len(r.Header.Get("X-Cost"))) },
		}, steps: []step{
			step{fields: tells(`"api";q=10;w=60`, `"api";r=7;t=18`)}.with("", "", "X-Cost", "xxx"),
			{},
			step{status: http.StatusTooManyRequests, fields: refusal(`"api";q=10;w=60`, `"api";r=7;t=6`, "6")}.with("", "", "X-Cost", "xxxxxxxx"),
			step{status: http.StatusTooManyRequests, fields: refusal(`"api";q=10;w=60`, `"api";r=7`, "")}.with("", "", "X-Cost", "xxxxxxxxxxx"),
		}},
		{name: "failures are counted", limit: "2/min", config: httplimit.Config{Count: httplimit.CountFailures}, steps: []step{
			{fields: tells(`"api";q=2;w=60`, `"api";r=1;t=30`)},
			{fields: tells(`"api";q=2;w=60`, `"api";r=1;t=30`), path: "/status/201", status: http.StatusCreated},
			{fields: tells(`"api";q=2;w=60`, `"api";r=1;t=30`), path: "/status/401", status: http.StatusUnauthorized},
			{fields: tells(`"api";q=2;w=60`, `"api";r=0;t=30`), path: "/status/401", status: http.StatusUnauthorized},
			{fields: refusal(`"api";q=2;w=60`, `"api";r=0;t=30`, "30"), status: http.StatusTooManyRequests},
		}},
		{name: "successes are counted", limit: "2/min", config: httplimit.Config{Count: httplimit.CountSuccesses}, steps: []step{
			{fields: tells(`"api";q=2;w=60`, `"api";r=1;t=30`), path: "/status/500", status: http.StatusInternalServerError},
			{fields: tells(`"api";q=2;w=60`, `"api";r=1;t=30`)},
			{fields: tells(`"api";q=2;w=60`, `"api";r=0;t=30`), path: "/status/404", status: http.StatusNotFound},
			{fields: tells(`"api";q=2;w=60`, `"api";r=0;t=30`)},
			{fields: refusal(`"api";q=2;w=60`, `"api";r=0;t=30`, "30"), status: http.StatusTooManyRequests},
		}},
		{name: "failures of your own", limit: once, config: httplimit.Config{
			Count: httplimit.CountFailures, Failed: func(status int) bool { return status == http.StatusCreated },
		}, steps: []step{
			{fields: tells(oncePolicy, onceLeft), path: "/status/500", status: http.StatusInternalServerError},
			{fields: tells(oncePolicy, onceLeft), path: "/status/201", status: http.StatusCreated},
			denied,
		}},
		{name: "X-RateLimit", limit: "2/min", config: httplimit.Config{Legacy: httplimit.LegacySeconds, Headers: httplimit.NoFields}, steps: []step{
			{fields: fields("X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "30")},
			{fields: fields("X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30")},
			{status: http.StatusTooManyRequests, fields: fields("X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30",
				"Retry-After", "30", "Cache-Control", "no-store")},
		}},
		{name: "another status", limit: once, config: httplimit.Config{Status: http.StatusServiceUnavailable}, steps: []step{passes, {
			status: http.StatusServiceUnavailable, fields: refusal(oncePolicy, onceLeft, "60"),
			body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporarily not available",` +
				`"status":503,"detail":"The service cannot take the request now. Try again in 60 seconds.","violated-policies":["api"]}` + "\n",
		}}},
		{name: "the decision is in the context", limit: "5/h fixed-window", steps: []step{
			{path: "/left", fields: tells(`"api";q=5;w=3600`, `"api";r=4;t=3600`), body: "4 left of api"},
		}},
		{name: "the decision is not in the context", limit: "5/h fixed-window", config: httplimit.Config{NoContext: true}, steps: []step{
			{path: "/left", fields: tells(`"api";q=5;w=3600`, `"api";r=4;t=3600`), body: "no decision"},
		}},
		{name: "what is no route is limited, too", limit: once, steps: []step{
			{path: "/nowhere", status: http.StatusNotFound, fields: tells(oncePolicy, onceLeft)}, denied, denied.with("", "/nowhere"),
		}},
	}
}
