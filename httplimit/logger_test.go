package httplimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit"
)

// Without a logger misuse was not warned about at all. It is told to the default one, as it is when there is something to tell, once.
func TestMisuseIsToldToTheDefaultLogger(t *testing.T) {
	former := slog.Default()
	defer slog.SetDefault(former)
	forwarded := func(h http.Handler) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	var log bytes.Buffer
	told := middleware(t, limiter(t, "9/s"), nil).Wrap(http.HandlerFunc(ok))
	silent := middleware(t, limiter(t, "9/s"), &httplimit.Config{Logger: slog.New(slog.DiscardHandler)}).Wrap(http.HandlerFunc(ok))
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		forwarded(silent)
	}
	if log.Len() > 0 {
		t.Errorf("told, although there is a logger that is silent:\n%s", log.String())
	}
	for range 3 {
		forwarded(told)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "Config.Trusted") {
		t.Errorf("%d lines, want one that says Config.Trusted:\n%s", n, log.String())
	}
}
