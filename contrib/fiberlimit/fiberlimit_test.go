package fiberlimit_test

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v3"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate/contrib/fiberlimit"
	"github.com/tidegate-go/tidegate/httplimit/httplimittest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Of fasthttp: what tidies up its workers sees only after 10 s that the server is stopped, and what tells the date
		// never ends.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

// serve runs the app on the loopback until the test ends, and returns its URL.
func serve(t *testing.T, app *fiber.App) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestConformance(t *testing.T) {
	httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
		t.Helper()
		limits, err := fiberlimit.New(s.Decider, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		app := fiber.New()
		app.Use(limits)
		for _, route := range s.Routes {
			app.All(route, func(c fiber.Ctx) error {
				status, body := s.Serve(c.Context(), c.Path())
				c.Set(fiber.HeaderContentType, "text/plain")
				return c.Status(status).SendString(body)
			})
		}
		return serve(t, app)
	})
}
