package fiberlimit

import (
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// New returns a middleware over a decider: a [*tidegate.Limiter], or an engine of many rules. A nil config is the default.
// The error is that of [httplimit.New], which says what is wrong with the config, or that Respond is set.
func New(decider tidegate.Decider, cfg *httplimit.Config) (fiber.Handler, error) {
	m, err := httplimit.New(decider, cfg)
	if cfg != nil && cfg.Respond != nil {
		err = errors.Join(err, errors.New("fiberlimit: Respond writes to a http.ResponseWriter, which fiber has not: leave it nil"))
	}
	if err != nil {
		return nil, err
	}
	return Handler(m), nil
}

// Handler returns the middleware in fiber's shape, for a program that has it elsewhere, too, or that closes it.
func Handler(m *httplimit.Middleware) fiber.Handler {
	return func(c fiber.Ctx) error {
		ctx := c.Context()
		p := m.Enter(ctx, request{c})
		header := &c.Response().Header
		for _, f := range p.Fields() {
			if f.List {
				header.Add(f.Name, f.Value)
			} else {
				header.Set(f.Name, f.Value)
			}
		}
		if a := p.Refusal(); a != nil {
			c.Set(fiber.HeaderContentType, httplimit.ContentType)
			return c.Status(a.Status).Send(a.Problem())
		}
		if with := p.Context(ctx); with != ctx {
			c.SetContext(with)
		}
		status, streams := http.StatusInternalServerError, false // of a handler that panics
		defer func() {
			if !streams {
				p.Done(status)
			}
		}()
		err := c.Next()
		status = statusOf(c, err)
		streams = err == nil && afterStream(c.RequestCtx(), p, status)
		return err
	}
}

// statusOf is what fiber will answer: it answers errors later.
func statusOf(c fiber.Ctx, err error) int {
	if err == nil {
		return c.Response().StatusCode()
	}
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		return e.Code
	}
	return http.StatusInternalServerError
}
