package httplimit

import (
	"context"

	"github.com/tidegate-go/tidegate"
)

type contextKey struct{}

// decisionContext carries the decision in one allocation.
type decisionContext struct {
	context.Context //nolint:containedctx // it is a context
	decision        tidegate.Decision
}

// Value returns the decision for its key.
func (c *decisionContext) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// NewContext returns a context that carries the decision.
func NewContext(ctx context.Context, d tidegate.Decision) context.Context {
	return &decisionContext{Context: ctx, decision: d}
}

// FromContext returns the decision that let the request pass, of the innermost middleware that made one.
func FromContext(ctx context.Context) (tidegate.Decision, bool) {
	if c, ok := ctx.Value(contextKey{}).(*decisionContext); ok {
		return c.decision, true
	}
	return tidegate.Decision{}, false
}
