package accesslog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The awkward lines of each format: what they say, or why they are skipped.
func TestFormats(t *testing.T) {
	const combined = `203.0.113.9 - - [02/Jan/2026:15:04:05 +0100] `
	const alb = `https 2026-01-02T14:04:05.600000Z app/lb/1 203.0.113.9:5123 10.0.0.1:80 0.001 0.5 0.0 200 200 34 366 `
	const albEnd = ` "curl/8" TLS TLSv1.3 arn "Root=1" "api.example.com" "arn:cert" 0 2026-01-02T14:04:05.099000Z "forward" "-" "-"`
	const envoy = `[2026-01-02T14:04:05.250Z] `
	const frontHead = "#Fields: date time c-ip cs-method cs(Host) cs-uri-stem sc-status cs(User-Agent) cs-uri-query time-taken"
	for _, c := range []struct {
		format, line string
		want         string // the time in UTC and the fields, or what the error says
	}{
		// common and combined
		{"common", combined + `"GET /a?b=c HTTP/1.1" 200 12`, `14:04:05 remote_addr=203.0.113.9 method=GET path=/a query=b=c protocol=HTTP/1.1 status=200 body_bytes_sent=12`},
		{"common", `2001:db8::1 - frank [02/Jan/2026:15:04:05 +0000] "HEAD / HTTP/2.0" 304 -`, `15:04:05 remote_addr=2001:db8::1 remote_user=frank method=HEAD path=/ protocol=HTTP/2.0 status=304`},
		{"common", combined + `"GET /a HTTP/1.1" 200 12 "-" "curl" more`, `14:04:05 remote_addr=203.0.113.9 method=GET path=/a protocol=HTTP/1.1 status=200 body_bytes_sent=12`},
		{"common", combined + `"GET /a b HTTP/1.1" 400 0`, `14:04:05 remote_addr=203.0.113.9 method=GET path=/a b protocol=HTTP/1.1 status=400 body_bytes_sent=0`},
		{"common", combined + `"GET /" 400 0`, `14:04:05 remote_addr=203.0.113.9 method=GET path=/ status=400 body_bytes_sent=0`},
		{"common", combined + `"-" 408 0`, `! the request is empty`},
		{"common", combined + `"" 400 0`, `! the request is empty`},
		{"common", combined + `"\x16\x03\x01" 400 0`, `! is no request`},
		{"common", combined + `"GET /a HTTP/1.1 200 12`, `! no closing quote`},
		{"common", combined + `"GET /a HTTP/1.1"`, `! the line ends where`},
		{"common", `203.0.113.9 - - [31/Feb/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 1`, `! is no time`},
		{"common", `203.0.113.9 - - [02/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 1`, `! before 1990`},
		{"common", `203.0.113.9`, `! the line ends where`},
		{"common", ``, `! the line ends where`},
		{"combined", combined + `"GET /q HTTP/1.1" 200 12 "https://e.org/\"x\"" "Mozilla \x22q\x22 \\ \q"`, `14:04:05 remote_addr=203.0.113.9 method=GET path=/q protocol=HTTP/1.1 status=200 body_bytes_sent=12 http_referer=https://e.org/"x" http_user_agent=Mozilla "q" \ \q`},
		{"combined", combined + `"GET http://api.example.com:8080/x?y HTTP/1.1" 200 12 "-" "-"`, `14:04:05 remote_addr=203.0.113.9 method=GET host=api.example.com:8080 path=/x query=y protocol=HTTP/1.1 status=200 body_bytes_sent=12`},
		{"combined", combined + `"OPTIONS * HTTP/1.1" 204 0 "-" "-"`, `14:04:05 remote_addr=203.0.113.9 method=OPTIONS path=* protocol=HTTP/1.1 status=204 body_bytes_sent=0`},
		{"combined", combined + `"CONNECT e.org:443 HTTP/1.1" 405 0 "-" "-"`, `14:04:05 remote_addr=203.0.113.9 method=CONNECT host=e.org:443 protocol=HTTP/1.1 status=405 body_bytes_sent=0`},
		{"combined", combined + `"GET /a HTTP/1.1" 200 12 "-" "cut`, `! no closing quote`},

		// nginx-style format strings
		{`$remote_addr [$time_iso8601] "$request" $status $request_time`, `192.0.2.1 [2026-01-02T15:04:05+01:00] "GET / HTTP/1.1" 200 0.123`, `14:04:05 remote_addr=192.0.2.1 method=GET path=/ protocol=HTTP/1.1 status=200 request_time=0.123`},
		{`$msec|$remote_addr|$request_method|$request_uri|$http_x_user`, `1767362645.250|::1|POST|/p?q=1|bob smith`, `14:04:05.25 remote_addr=::1 method=POST path=/p query=q=1 http_x_user=bob smith`},
		{`$msec $status;`, `1767362645.250 200; more`, `! the line goes on`},
		{`${msec}s "$request"`, `1767362645s "GET / HTTP/1.0"`, `14:04:05 method=GET path=/ protocol=HTTP/1.0`},

		// without quotes: what nginx writes with spaces itself, and what has none
		{`$time_local $remote_addr $request $status`, `02/Jan/2026:15:04:05 +0100 ::1 GET /a b?c HTTP/1.1 200`, `14:04:05 remote_addr=::1 method=GET path=/a b query=c protocol=HTTP/1.1 status=200`},
		{`$time_local $remote_addr $request $status`, `02/Jan/2026:15:04:05 +0100 ::1 GET / 400`, `! put quotes around $request`},
		{`$time_local $remote_addr $request $status`, `02/Jan/2026:15:04:05 +0100 ::1 - 408`, `! the request is empty`},
		{`$time_local $status`, `02/Jan/2026:14:04:05 200`, `14:04:05 status=200`},
		{`$msec $upstream_addr $upstream_status $status`, `1767362645.250 192.0.2.1:80, 192.0.2.2:80 : unix:/run/s 502, 504 : 200 200`, `14:04:05.25 upstream_addr=192.0.2.1:80, 192.0.2.2:80 : unix:/run/s upstream_status=502, 504 : 200 status=200`},
		{`$msec $upstream_response_time $status`, `1767362645.250 0.001, - 200`, `14:04:05.25 upstream_response_time=0.001, - status=200`},
		{`$msec $upstream_addr $status`, `1767362645.250 - 200`, `14:04:05.25 status=200`},
		{`$msec $upstream_addr : $status`, `1767362645.250 192.0.2.1:80, 192.0.2.2:80 : 200`, `14:04:05.25 upstream_addr=192.0.2.1:80, 192.0.2.2:80 status=200`},
		{`$msec $upstream_addr $status`, `1767362645.250 192.0.2.1:80,`, `! the line ends where`},
		{`$msec $upstream_addr $status`, `1767362645.250 192.0.2.1:80, `, `! the line ends where`},
		{`$msec $upstream_addr`, `1767362645.250 192.0.2.1:80, 192.0.2.2:80`, `14:04:05.25 upstream_addr=192.0.2.1:80, 192.0.2.2:80`},
		{`$proxy_add_x_forwarded_for [$time_local] $status`, `203.0.113.9, 10.0.0.1,10.0.0.2 [02/Jan/2026:15:04:05 +0100] 200`, `14:04:05 proxy_add_x_forwarded_for=203.0.113.9, 10.0.0.1,10.0.0.2 status=200`},
		{`$msec $http_x_forwarded_for $status`, `1767362645.250 203.0.113.9, 10.0.0.1 200`, `14:04:05.25 http_x_forwarded_for=203.0.113.9, 10.0.0.1 status=200`},
		{`$msec $http_referer $status $http_user_agent`, `1767362645.250 https://e.org/a b 200 curl`, `! "b" is no status`},
		{`$msec $http_referer $remote_addr`, `1767362645.250 https://e.org/a b ::1`, `! the line goes on`},
		{`$msec|$http_user_agent|$status`, `1767362645.250|a|b|200`, `! is no status`},

		// JSON: epoch in s, ms, µs and ns, dates, nested members, nulls, arrays
		{"json", `{"time":1767362645,"method":"GET","path":"/a?b=c","status":200,"ip":"203.0.113.9:5123"}`, `14:04:05 method=GET path=/a query=b=c status=200 ip=203.0.113.9:5123 remote_addr=203.0.113.9`},
		{"json", `{"ts":1767362645250,"url":"https://e.org/x"}`, `14:04:05.25 url=https://e.org/x host=e.org path=/x`},
		{"json", `{"ts":1767362645250000}`, `14:04:05.25`},
		{"json", `{"ts":1767362645250000000}`, `14:04:05.25`},
		{"json", `{"ts":1.76736264525e9,"a":{"b":{"c":true}},"n":null,"l":["x",2,{"y":1}]}`, `14:04:05.25 a.b.c=true l=x, 2`},
		{"json", `{"@timestamp":"2026-01-02T14:04:05.250Z","user":"ü\"\u00e9","user":"second"}`, `14:04:05.25 user=ü"é remote_user=ü"é user=second remote_user=second`},
		{"json", `{"start_time":"2026-01-02T14:04:05Z","time":"2026-01-02T14:04:09Z"}`, `14:04:05 time=2026-01-02T14:04:09Z`},
		{"json", `{"time":"2026-01-02T14:04:09Z","request":"GET /r HTTP/1.1"}`, `14:04:09 request=GET /r HTTP/1.1 method=GET path=/r protocol=HTTP/1.1`},
		{"json", `{"method":"GET"}`, `! there is no time`},
		{"json", `{"time":"soon"}`, `! member "time": "soon" is no time`},
		{"json", `{"time":17}`, `! before 1990`},
		{"json", `{"time":1767362645`, `! does not end in this line`},
		{"json", `{"time":1767362645} {"time":1767362645}`, `! more follows`},
		{"json", `{"time":1767362645,}`, `! broken JSON`},
		{"json", `[1]`, `! is no JSON object`},
		{"json", `null`, `! is no JSON object`},
		{"json", `{"time":1767362645,"x":` + strings.Repeat(`{"x":`, 40) + `1` + strings.Repeat(`}`, 41), `! objects in objects`},
		{"caddy", `{"level":"info","ts":1767362645.25,"request":{"remote_ip":"203.0.113.9","client_ip":"198.51.100.7","method":"GET","host":"e.org","uri":"/u?v=w","headers":{"User-Agent":["curl"],"X-Forwarded-For":["a","b"]}},"duration":0.0012,"status":200}`,
			`14:04:05.25 level=info request.remote_ip=203.0.113.9 remote_addr=203.0.113.9 request.client_ip=198.51.100.7 request.method=GET method=GET request.host=e.org host=e.org request.uri=/u?v=w path=/u query=v=w request.headers.User-Agent=curl http_user_agent=curl request.headers.X-Forwarded-For=a, b http_x_forwarded_for=a, b duration=0.0012 status=200`},

		// logfmt
		{"logfmt", `time=2026-01-02T14:04:05.25Z method=GET path="/a b?c" status=200 dur=12ms bare user="x \"y\""`, `14:04:05.25 method=GET path=/a b query=c status=200 dur=12ms user=x "y" remote_user=x "y"`},
		{"logfmt", `method=GET`, `! there is no time`},
		{"logfmt", `time=2026-01-02T14:04:05Z path="/a`, `! column`},
		{"logfmt", `=x`, `! column`},

		// Envoy: the time is that of the start
		{"envoy", envoy + `"GET /a HTTP/1.1" 200 - 0 12 7 6 "203.0.113.9, 10.0.0.1" "curl" "id" "api.example.com" "10.0.0.2:80"`, `14:04:05.25 method=GET path=/a protocol=HTTP/1.1 status=200 bytes_received=0 body_bytes_sent=12 duration_ms=7 upstream_service_time_ms=6 http_x_forwarded_for=203.0.113.9, 10.0.0.1 http_user_agent=curl http_x_request_id=id host=api.example.com upstream_host=10.0.0.2:80`},
		{"envoy", envoy + `"GET /a HTTP/2" 200 - via_upstream - "-" 0 12 7 6 "-" "curl" "id" "h" "u" outbound|80 x - - - -`, `14:04:05.25 method=GET path=/a protocol=HTTP/2 status=200 response_code_details=via_upstream bytes_received=0 body_bytes_sent=12 duration_ms=7 upstream_service_time_ms=6 http_user_agent=curl http_x_request_id=id host=h upstream_host=u`},
		{"envoy", envoy + `"- - -" 0 DPE 0 0 0 - "-" "-" "-" "-" "-"`, `! the request is empty`},

		// load balancers
		{"alb", alb + `"GET https://api.example.com:443/a?b HTTP/2.0"` + albEnd, `14:04:05.099 type=https end_time=2026-01-02T14:04:05.600000Z elb=app/lb/1 remote_addr=203.0.113.9 target_addr=10.0.0.1:80 request_processing_time=0.001 target_processing_time=0.5 response_processing_time=0.0 status=200 target_status_code=200 received_bytes=34 sent_bytes=366 method=GET host=api.example.com:443 path=/a query=b protocol=HTTP/2.0 http_user_agent=curl/8 ssl_cipher=TLS ssl_protocol=TLSv1.3 target_group_arn=arn trace_id=Root=1 domain_name=api.example.com chosen_cert_arn=arn:cert matched_rule_priority=0 actions_executed=forward`},
		{"alb", alb + `"- http://api.example.com:80- "` + albEnd, `! the request is empty`},

		// CloudFront
		{"cloudfront", frontHead + "\n2026-01-02\t14:04:05\t2001:db8::1\tGET\td.cloudfront.net\t/a%20b\t200\tMozilla/5.0%20(X)\tq=%2520\t0.25", `14:04:05 remote_addr=2001:db8::1 c-ip=2001:db8::1 method=GET cs-method=GET http_host=d.cloudfront.net path=/a%20b status=200 sc-status=200 http_user_agent=Mozilla/5.0 (X) query=q=%2520 time-taken=0.25`},
		{"cloudfront", frontHead + "\n2026-01-02\t14:04:05\t1.2.3.4", `! 3 columns`},
		{"cloudfront", "#Version: 1.0", `! a heading`},
	} {
		t.Run(c.format[:min(12, len(c.format))]+"/"+c.line[max(0, len(c.line)-30):], func(t *testing.T) {
			newFormat, err := Named(c.format, "")
			if err != nil {
				t.Fatal(err)
			}
			f := newFormat()
			var got string
			for line := range strings.SplitSeq(c.line, "\n") {
				got = told(f, line)
			}
			if message, bad := strings.CutPrefix(c.want, "! "); bad {
				if !strings.HasPrefix(got, "! ") || !strings.Contains(got, message) {
					t.Errorf("%s\n got %s\nwant an error with %s", c.line, got, message)
				}
			} else if got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
			}
		})
	}
}

// told writes what a format reads in a line, the fields alone that count.
func told(f Format, line string) string {
	var e Entry
	if err := f.Read(line, &e); err != nil {
		return "! " + err.Error()
	}
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(e.Time.UTC().Format("2006-01-02 15:04:05.999"), "2026-01-02 "))
	for _, f := range e.Fields {
		b.WriteString(" " + f.Name + "=" + f.Value)
	}
	return b.String()
}

func TestFormatStringsThatAreWrong(t *testing.T) {
	for format, want := range map[string]string{
		"":                          "there is no format",
		"squid":                     "there is no format",
		"$remote_addr $status":      "no time",
		"$time_local$remote_addr":   "nothing tells where",
		"$ $time_local":             "a $ without a name",
		"${time_local $remote_addr": "a $ without a name",
	} {
		if _, err := Named(format, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", format, err, want)
		}
	}
}

func TestDetect(t *testing.T) {
	for want, lines := range map[string][]string{
		"combined":   {`1.2.3.4 - - [02/Jan/2026:15:04:05 +0100] "GET / HTTP/1.1" 200 1 "-" "-"`},
		"common":     {`junk`, `1.2.3.4 - - [02/Jan/2026:15:04:05 +0100] "GET / HTTP/1.1" 200 1`},
		"json":       {`{"ts":1767362645}`},
		"logfmt":     {`ts=1767362645 path=/`},
		"cloudfront": {`#Version: 1.0`, `#Fields: date time c-ip`, "2026-01-02\t14:04:05\t1.2.3.4"},
		"envoy":      {`[2026-01-02T14:04:05.250Z] "GET /a HTTP/1.1" 200 - 0 12 7 6 "-" "curl" "id" "h" "u"`},
	} {
		if got, err := Detect(lines, ""); got != want || err != nil {
			t.Errorf("%s: detected %s, %v", want, got, err)
		}
	}
	if _, err := Detect([]string{"hello"}, ""); err == nil || !strings.Contains(err.Error(), "--format") {
		t.Errorf("an unknown format: %v", err)
	}
	if got, err := Detect([]string{`{"zeit":1767362645}`}, "zeit"); got != "json" || err != nil {
		t.Errorf("a time field: %s, %v", got, err)
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 1, 2, 14, 4, 5, 250e6, time.UTC)
	for _, text := range []string{
		"1767362645.250", "1767362645250", "1767362645250000", "1767362645250000000", "2026-01-02T14:04:05.250Z",
		"2026-01-02T15:04:05.25+01:00", "2026-01-02T15:04:05.25+0100", "2026-01-02 14:04:05.250Z", "2026-01-02 15:04:05.250 +0100",
		"2026/01/02 14:04:05.250", "2026-01-02T14:04:05.250", "[2026-01-02 14:04:05.250]", `"1767362645250"`,
	} {
		got, whole, err := parseTime(text)
		if err != nil || whole || got.Sub(want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, whole %v, %v", text, got, whole, err)
		}
	}
	for _, text := range []string{"1767362645", "2026-01-02T14:04:05Z", "02/Jan/2026:14:04:05 +0000", "02/Jan/2026:09:34:05 -0430", "Fri, 02 Jan 2026 14:04:05 GMT"} {
		if got, whole, err := parseTime(text); err != nil || !whole || !got.Equal(want.Truncate(time.Second)) {
			t.Errorf("%s: %v, whole %v, %v", text, got, whole, err)
		}
	}
	for _, text := range []string{"", "-", "12", "-5", "0x10", "nan", "inf", "1e30", "02/Foo/2026:14:04:05 +0000", "29/Feb/2025:14:04:05 +0000", "5000-01-01T00:00:00Z"} {
		if got, _, err := parseTime(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// The zone of a date in words is one that has an offset, and not whatever this machine takes it for; a leap second is the first of the
// next minute.
func TestZonesAndLeapSeconds(t *testing.T) {
	for text, want := range map[string]string{
		"Fri, 02 Jan 2026 14:04:05 GMT":      "2026-01-02T14:04:05Z",
		"Fri, 02 Jan 2026 14:04:05 UTC":      "2026-01-02T14:04:05Z",
		"Fri, 02 Jan 2026 14:04:05 Z":        "2026-01-02T14:04:05Z",
		"Fri, 02 Jan 2026 14:04:05 EST":      "2026-01-02T19:04:05Z",
		"Fri, 02 Jan 2026 14:04:05 PDT":      "2026-01-02T21:04:05Z",
		"Fri, 02 Jan 2026 14:04:05 +0100":    "2026-01-02T13:04:05Z",
		"Fri, 02 Jan 2026 14:04:05.25 -0330": "2026-01-02T17:34:05.25Z",
		"31/Dec/2016:23:59:60 +0000":         "2017-01-01T00:00:00Z",
		"01/Jan/2017:00:59:60 +0100":         "2017-01-01T00:00:00Z",
		"2016-12-31T23:59:60Z":               "2017-01-01T00:00:00Z",
		"2016-12-31T23:59:60.250Z":           "2017-01-01T00:00:00.25Z",
		"2017-01-01T05:29:60+05:30":          "2017-01-01T00:00:00Z",
		"2016-12-31 23:59:60":                "2017-01-01T00:00:00Z",
		"2016/12/31 23:59:60":                "2017-01-01T00:00:00Z",
		"Sat, 31 Dec 2016 23:59:60 GMT":      "2017-01-01T00:00:00Z",
		"Sat, 31 Dec 2016 18:59:60 EST":      "2017-01-01T00:00:00Z",
		"31/Dec/2016:23:59:60":               "2017-01-01T00:00:00Z",
	} {
		got, whole, err := parseTime(text)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want || whole != (got.Nanosecond() == 0) {
			t.Errorf("%s: %v, whole %v, %v", text, got.UTC(), whole, err)
		}
	}
	for _, text := range []string{
		"Fri, 02 Jan 2026 14:04:05 CET", "Fri, 02 Jan 2026 14:04:05 CEST", "Fri, 02 Jan 2026 14:04:05 PKT", "Fri, 02 Jan 2026 14:04:05 JST",
		"31/Dec/2016:23:59:61 +0000", "2016-12-31T23:59:61Z", "2016-12-31T23:60:00Z", "2016-12-31T23:60:60Z", "Fri, 02 Jan 2026 14:04:05 ",
	} {
		if got, _, err := parseTime(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	if _, _, err := parseTime("Fri, 02 Jan 2026 14:04:05 CET"); !strings.Contains(err.Error(), `the zone "CET" may mean several`) {
		t.Error(err)
	}
}

// Nothing that a log may hold stops the reading of it.
func FuzzFormats(f *testing.F) {
	for i, line := range []string{
		`1.2.3.4 - - [02/Jan/2026:15:04:05 +0100] "GET /\x22 HTTP/1.1" 200 1 "-" "-"`, `{"ts":1767362645.5,"request":{"uri":"/x"}}`,
		`ts=1767362645 path="/a b"`, "2026-01-02\t14:04:05\t1.2.3.4", `[2026-01-02T14:04:05.250Z] "GET /a HTTP/1.1" 200 - 0 12 7 6 "-" "c" "i" "h" "u"`,
	} {
		f.Add(uint8(i), line)
	}
	names := append(slices.Clone(Names), `$remote_addr "$http_a" $msec $request_uri`)
	f.Fuzz(func(t *testing.T, n uint8, line string) {
		newFormat, err := Named(names[int(n)%len(names)], "")
		if err != nil {
			t.Fatal(err)
		}
		var e Entry
		err = newFormat().Read(line, &e)
		if err == nil && (e.Time.Before(earliest) || e.Time.After(latest)) {
			t.Errorf("%q: a request without a time, or at %v", line, e.Time)
		}
		if err != nil && !errors.Is(err, ErrHeading) && err.Error() == "" {
			t.Errorf("%q: an error that says nothing", line)
		}
		for _, f := range e.Fields {
			if f.Name == "" {
				t.Errorf("%q: a field without a name: %+v", line, e.Fields)
			}
		}
	})
}
