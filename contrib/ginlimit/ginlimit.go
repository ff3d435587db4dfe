package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
)

// New returns a middleware over a decider: a [*tidegate.Limiter], or an engine of many rules. A nil config is the default.
// The error is that of [httplimit.New], which says what is wrong with the config.
func New(decider tidegate.Decider, cfg *httplimit.Config) (gin.HandlerFunc, error) {
	m, err := httplimit.New(decider, cfg)
	if err != nil {
		return nil, err
	}
	return Handler(m), nil
}

// Handler returns the middleware in gin's shape, for a program that has it elsewhere, too, or that closes it.
func Handler(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		p := m.EnterHTTP(c.Request, c.FullPath())
		p.SetFields(c.Writer.Header())
		if a := p.Refusal(); a != nil {
			c.Abort()
			m.Refuse(c.Writer, c.Request, a)
			return
		}
		if ctx := p.Context(c.Request.Context()); ctx != c.Request.Context() {
			c.Request = c.Request.WithContext(ctx)
		}
		status := http.StatusInternalServerError // of a handler that panics
		defer func() { p.Done(status) }()
		c.Next()
		status = c.Writer.Status()
	}
}
