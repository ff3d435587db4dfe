package echolimit_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/contrib/echolimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := echolimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		e := echo.New()
		e.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		e.Use(limits)
		for _, route := range s.Routes {
			e.Any(route, func(c *echo.Context) error {
				status, body := s.Serve(c.Request().Context(), c.Request().URL.Path)
				return c.Blob(status, "text/plain", []byte(body))
			})
		}
		server := httptest.NewServer(e)
		t.Cleanup(server.Close)
		return server.URL
	})
}
