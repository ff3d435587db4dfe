package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// New returns a middleware over a decider: a [*tidegate.Limiter], or an engine of many rules. A nil config is the default.
// The error is that of [httplimit.New], which says what is wrong with the config.
func New(decider tidegate.Decider, cfg *httplimit.Config) (echo.MiddlewareFunc, error) {
	m, err := httplimit.New(decider, cfg)
	if err != nil {
		return nil, err
	}
	return Middleware(m), nil
}

// Middleware returns the middleware in echo's shape, for a program that has it elsewhere, too, or that closes it.
func Middleware(m *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			p := m.EnterHTTP(c.Request(), c.Path())
			p.SetFields(c.Response().Header())
			if a := p.Refusal(); a != nil {
				m.Refuse(c.Response(), c.Request(), a)
				return nil
			}
			if ctx := p.Context(c.Request().Context()); ctx != c.Request().Context() {
				c.SetRequest(c.Request().WithContext(ctx))
			}
			status := http.StatusInternalServerError // of a handler that panics
			defer func() { p.Done(status) }()
			err := next(c)
			_, status = echo.ResolveResponseStatus(c.Response(), err) // echo answers errors later
			return err
		}
	}
}
