package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/server/internal/accesslog"
	"github.com/tidegate-go/tidegate/server/internal/loggen"
)

func parse(tb testing.TB, text string) *rules.Set {
	tb.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+text))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func open(tb testing.TB, text string, o accesslog.Options) []*accesslog.Log {
	tb.Helper()
	r, err := accesslog.Open("-", strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	l, err := accesslog.NewLog(r, o)
	if err != nil {
		tb.Fatal(err)
	}
	return []*accesslog.Log{l}
}

func generated(tb testing.TB, lines int) string {
	tb.Helper()
	var b bytes.Buffer
	cfg := loggen.Config{Lines: lines, Seed: 42, Start: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), PerSecond: 400}
	if err := loggen.Write(&b, cfg); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// most returns the most of some moments in any second, by asking each.
func most(at []time.Time) int {
	n := 0
	for i := range at {
		j, _ := slices.BinarySearchFunc(at, at[i].Add(-time.Second), func(a, b time.Time) int {
			if a.After(b) {
				return 1
			}
			return -1 // a second before is outside
		})
		n = max(n, i-j+1)
	}
	return n
}

// The same logs, rules and seed give the same report, of which the peaks are those that a count of the decisions gives. (The command's
// tests count all of it once more, from the log itself.)
func TestReportIsTheSameTwice(t *testing.T) {
	set := parse(t, "- {name: log, key: [ip], limit: 30/10s sliding-log}\n")
	text := generated(t, 50_000)
	var before, after []time.Time
	report, err := Run(context.Background(), open(t, text, accesslog.Options{}), &Config{Rules: set, Decided: func(d *Decided) {
		before = append(before, d.At)
		if d.Decision.Allowed {
			after = append(after, d.At)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Requests != 50_000 || report.Parsed != 50_000 || report.Skipped != 0 || report.Refused < 1000 {
		t.Errorf("%+v", report)
	}
	for _, got := range [][2]int{{report.PeakBefore, report.PeakAfter}, {report.Rules[0].PeakBefore, report.Rules[0].PeakAfter}} {
		if want := [2]int{most(before), most(after)}; got != want {
			t.Errorf("peaks %v, want %v", got, want)
		}
	}
	if report.TopRefused[0].Key != "198.51.100.7" {
		t.Errorf("the crawler should be refused most: %+v", report.TopRefused[0])
	}
	again, err := Run(context.Background(), open(t, text, accesslog.Options{}), &Config{Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(report, again) {
		t.Errorf("the same replay twice:\n%+v\n%+v", report, again)
	}
}

func TestCompare(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "ts=%d.%02d path=/ user=u%d\n", 1767362640, i, i%2)
	}
	report, err := Run(context.Background(), open(t, text.String(), accesslog.Options{}), &Config{
		Rules:   parse(t, "- {name: new, key: [user], match: {user: u0}, limit: 10/h}\n"),
		Compare: parse(t, "- {name: old, key: [user], match: {user: u1}, limit: 20/h}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := report.Compare
	if c.Same != 30 || c.NewlyRefused != 40 || c.NewlyAdmitted != 30 {
		t.Errorf("%+v", c)
	}
	if want := (KeyCount{"new", "u0", 40}); len(c.WhoRefused) != 1 || c.WhoRefused[0] != want {
		t.Errorf("newly refused: %+v", c.WhoRefused)
	}
	if want := (KeyCount{"old", "u1", 30}); len(c.WhoAdmitted) != 1 || c.WhoAdmitted[0] != want {
		t.Errorf("newly admitted: %+v", c.WhoAdmitted)
	}
}

// Attributes are those of the middleware, of the mapping, and of the log.
func TestAttributes(t *testing.T) {
	const line = `{"ts":1767362645.25,"remote_ip":"10.0.0.1","method":"HEAD","host":"E.org:8080","uri":"/a/../b%20c/?v=w","headers":{"X-Forwarded-For":["203.0.113.9, 10.0.0.2"],"X-User":"bob"},"jwt":{"sub":"carol"},"user":"dan"}`
	for rule, key := range map[string]string{
		"key: [ip], match: {ip: 203.0.113.9}":  "203.0.113.9",
		"key: [path]":                          "/b c",
		"key: [method]":                        "GET",
		"key: [host]":                          "e.org",
		"key: [query.v]":                       "w",
		"key: [header.x-user]":                 "bob",
		"key: [user]":                          "dan",
		"key: [jwt.sub]":                       "carol",
		"key: [tenant]":                        "carol",
		"key: [who]":                           "bob",
		"key: [absent], match: {path: '/b c'}": "-",
	} {
		cfg := &Config{Rules: parse(t, "- {name: r, limit: none, "+rule+"}\n")}
		cfg.ClientIP.Trusted = []string{"10.0.0.0/8"}
		var err error
		if cfg.Mapping, err = ParseMapping([]string{"tenant=jwt.sub", "who=header.X-User"}); err != nil {
			t.Fatal(err)
		}
		report, err := Run(context.Background(), open(t, line, accesslog.Options{}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := "-"
		if len(report.TopRefused) > 0 {
			got = report.TopRefused[0].Key
		}
		if got != key {
			t.Errorf("%s: the key is %q, want %q", rule, got, key)
		}
	}
	for _, bad := range [][]string{{"user"}, {"=x"}, {"x="}, {"a=b", "a=c"}} {
		if _, err := ParseMapping(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What a request asks for is read as net/http reads it, whose requests the middleware sees.
func TestTargetsAreThoseOfTheMiddleware(t *testing.T) {
	for _, line := range []string{
		"GET /a#b HTTP/1.1", "GET /a#b?c=d HTTP/1.1", "GET /a?c=d#e HTTP/1.1", "GET /# HTTP/1.1", "GET /%23?%23 HTTP/1.1",
		"GET //a//b HTTP/1.1", "GET ///a HTTP/1.1", "GET /a?u=http://e.org/x HTTP/1.1", "GET /http://e.org/x HTTP/1.1",
		"GET http://e.org HTTP/1.1", "GET http://e.org/a%20b#c?d#e HTTP/1.1", "GET http://e.org:8080?x HTTP/1.1", "GET https://[2001:db8::1]:443/a HTTP/1.1",
		"GET /a?b?c HTTP/1.1", "GET /a;b=c?d;e HTTP/1.1", "GET /a? HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT e.org:443 HTTP/1.1", "CONNECT /rpc HTTP/1.1",
	} {
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + "\r\n\r\n")))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		log := open(t, "192.0.2.1 - - [02/Jan/2026:15:04:05 +0100] \""+line+"\" 200 1\n", accesslog.Options{Format: "common"})
		e, err := log[0].Next()
		if err != nil {
			t.Fatalf("%s: %v, %+v", line, err, log[0].Counts)
		}
		got := request{&e}
		if got.Path() != want.URL.Path && (got.Path() != "/" || want.URL.Path != "") || got.Query() != want.URL.RawQuery || got.Host() != want.Host {
			t.Errorf("%s: path %q, query %q, host %q; want %q, %q, %q", line, got.Path(), got.Query(), got.Host(), want.URL.Path, want.URL.RawQuery, want.Host)
		}
	}
}

// What is interrupted reports so far, and says so.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	report, err := Run(ctx, open(t, generated(t, 50_000), accesslog.Options{}), &Config{
		Rules: parse(t, "- {name: r, limit: 1/s}\n"),
		Decided: func(*Decided) {
			if n++; n == 1000 {
				cancel()
			}
		},
	})
	if err != nil || !report.Interrupted || report.Requests < 1000 || report.Requests == 50_000 {
		t.Errorf("%+v, %v", report, err)
	}
	var b strings.Builder
	if err := report.WriteText(&b); err != nil || !strings.HasPrefix(b.String(), "Interrupted: this is the report so far.") {
		t.Errorf("%v, %s", err, b.String())
	}
}

func TestStrictEndsAtTheFirstBadLine(t *testing.T) {
	text := "ts=1767362640.5 path=/\njunk\nts=1767362641.5 path=/\n"
	report, err := Run(context.Background(), open(t, text, accesslog.Options{Strict: true}), &Config{Rules: parse(t, "- {name: r, limit: 1/s}\n")})
	bad, ok := errors.AsType[*accesslog.LineError](err)
	if !ok || bad.Line != 2 || report.Requests != 1 {
		t.Errorf("%v, %+v", err, report)
	}
}

// Beyond a million keys their number is an estimate that is off by little.
func TestManyKeysAreEstimated(t *testing.T) {
	var d distinct
	for i := range 3 * maxHashes {
		d.add(fmt.Sprint(i))
		if i%3 == 0 {
			d.add(fmt.Sprint(i))
		}
	}
	n, exact := d.count()
	if exact || len(d.hashes) > maxHashes || n < 3*maxHashes*99/100 || n > 3*maxHashes*101/100 {
		t.Errorf("%d, exact %v, with %d hashes", n, exact, len(d.hashes))
	}
}

// When there are too many refused keys, those that were refused most are kept.
func TestManyRefusedKeysAreBounded(t *testing.T) {
	var r refusals
	for range 5 {
		for i := range 10 {
			r.refuse(fmt.Sprint("hot", i))
		}
	}
	for i := range 2 * maxRefused {
		r.refuse(fmt.Sprint(i))
	}
	if len(r.keys) > maxRefused || !r.forgotten {
		t.Errorf("%d keys", len(r.keys))
	}
	for i, k := range r.top("r", 10) {
		if k.Key != fmt.Sprint("hot", i) || k.Refused != 5 {
			t.Errorf("%d: %+v", i, k)
		}
	}
}

func TestSeriesHalves(t *testing.T) {
	var s series
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		at := start.Add(time.Duration(i) * time.Second)
		s.offer(at)
		if i%2 == 0 {
			s.admit(at)
		}
	}
	r := s.report()
	var offered, admitted int64
	for i := range r.Offered {
		offered += r.Offered[i]
		admitted += r.Admitted[i]
	}
	if len(r.Offered) > maxBins || offered != 10_000 || admitted != 5000 || r.Step != 16 {
		t.Errorf("%d steps of %v s, %d offered, %d admitted", len(r.Offered), r.Step, offered, admitted)
	}
}

// BenchmarkMillion replays a generated log of a million lines.
func BenchmarkMillion(b *testing.B) {
	text := generated(b, 1_000_000)
	set := parse(b, "- {name: all, limit: 2000/s burst 500}\n- {name: per-ip, key: [ip], limit: 10/s burst 20}\n- {name: api, match: {path: /api/**}, key: [user], limit: 600/min burst 60}\n")
	b.ResetTimer()
	for b.Loop() {
		report, err := Run(context.Background(), open(b, text, accesslog.Options{}), &Config{Rules: set})
		if err != nil || report.Requests != 1_000_000 {
			b.Fatal(report, err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
