package ginlimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/contrib/ginlimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter = io.Discard
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := ginlimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		engine := gin.New()
		engine.Use(limits)
		for _, route := range s.Routes {
			engine.Any(route, func(c *gin.Context) {
				status, body := s.Serve(c.Request.Context(), c.Request.URL.Path)
				c.Data(status, "text/plain", []byte(body))
			})
		}
		server := httptest.NewServer(engine)
		t.Cleanup(server.Close)
		return server.URL
	})
}
var _ = http.StatusOK
