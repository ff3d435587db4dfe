package clientip_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// A service behind a proxy that it did not trust put all users into the proxy's bucket, and a header that nobody read was
// ignored in silence (RB-105). It is so that it works as configured, and says so once.
func TestMisuseIsWarnedAboutOnce(t *testing.T) {
	const header = "X-Forwarded-For"
	for _, c := range []struct {
		name   string
		cfg    clientip.Config
		remote string
		lines  http.Header
		want   string
	}{
		{"nobody is trusted", clientip.Config{}, "10.0.0.1:1", http.Header{header: {"203.0.113.9"}}, "Config.Trusted"},
		{"nobody is trusted to write Forwarded", clientip.Config{}, "10.0.0.1:1", http.Header{"Forwarded": {"for=203.0.113.9"}}, "Config.Trusted"},
		{"a peer is not", clientip.Config{Trusted: []string{"10.0.0.2"}}, "10.0.0.1:1", http.Header{header: {"203.0.113.9"}}, "Config.Trusted"},
		{"the proxy is silent", clientip.Config{Trusted: []string{"10.0.0.1"}}, "10.0.0.1:1", http.Header{}, "Config.Header"},
		{"too few hops", clientip.Config{Hops: 2}, "10.0.0.1:1", http.Header{header: {"203.0.113.9"}}, "Config.Hops"},
		{"junk", clientip.Config{Hops: 1}, "10.0.0.1:1", http.Header{header: {"unknown"}}, "no address"},
		{"no address", clientip.Config{}, "@", nil, "Unix socket"},
		{"a wide prefix", clientip.Config{IPv6Prefix: 128}, "[2001:db8::1]:1", nil, "/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			c.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			r, err := clientip.New(&c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				r.Key(c.remote, c.lines)
			}
			if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), c.want) {
				t.Errorf("%d lines, want one that says %q:\n%s", n, c.want, log.String())
			}
		})
	}
}

// What is right is not warned about.
func TestUseIsNotWarnedAbout(t *testing.T) {
	var log bytes.Buffer
	r, err := clientip.New(&clientip.Config{Trusted: []string{"private"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.Key("10.0.0.1:1", http.Header{"X-Forwarded-For": {"junk, 203.0.113.9"}})
	r.Key("203.0.113.1:1", http.Header{})
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

// Without a logger it was silent. The default one is told, and is not asked for before there is something to tell.
func TestMisuseIsToldToTheDefaultLogger(t *testing.T) {
	former := slog.Default()
	defer slog.SetDefault(former)
	r, err := clientip.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		r.Key("10.0.0.1:1", http.Header{"X-Forwarded-For": {"203.0.113.9"}})
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "Config.Trusted") {
		t.Errorf("%d lines, want one that says Config.Trusted:\n%s", n, log.String())
	}
}
