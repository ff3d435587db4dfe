package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate-go/tidegate"
)

// tracerName says in spans who made them.
const tracerName = "github.com/tidegate-go/tidegate/server"

// tracedStore makes a span of each call of a store. A span tells the rules that were charged and what was decided, and
// nothing of the keys: who reads traces is not who may know the users. For the same reason it tells no text of an error.
type tracedStore struct {
	tidegate.Store
	tracer trace.Tracer
}

// start begins the span of a call.
func (t *tracedStore) start(ctx context.Context, op string, charges []tidegate.Charge) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, "store "+op)
	if span.IsRecording() && len(charges) > 0 {
		names := make([]string, len(charges))
		for i := range charges {
			names[i] = charges[i].Rule
		}
		span.SetAttributes(attribute.StringSlice("tidegate.rules", names))
	}
	return ctx, span
}

// finish ends the span of a call.
func finish(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		kind := "other"
		switch {
		case errors.Is(err, tidegate.ErrUnknownID):
			kind = "unknown_id"
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, tidegate.ErrStore):
			kind = "caller"
		case errors.Is(err, tidegate.ErrStore), errors.Is(err, tidegate.ErrClosed):
			kind = "store"
		}
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Take is the store's.
func (t *tracedStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	ctx, span := t.start(ctx, "take", charges)
	before := len(dst)
	ds, err := t.Store.Take(ctx, charges, dst)
	if err == nil && span.IsRecording() {
		d := tidegate.Combine(charges, ds[before:])
		span.SetAttributes(
			attribute.Bool("tidegate.allowed", d.Allowed),
			attribute.String("tidegate.rule", d.Rule),
			attribute.String("tidegate.source", d.Source.String()))
	}
	finish(span, err)
	return ds, err
}

// Settle is the store's.
func (t *tracedStore) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	ctx, span := t.start(ctx, "settle", charges)
	err := t.Store.Settle(ctx, id, charges, cost)
	finish(span, err)
	return err
}

// Renew is the store's.
func (t *tracedStore) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	ctx, span := t.start(ctx, "renew", charges)
	err := t.Store.Renew(ctx, id, charges)
	finish(span, err)
	return err
}

// Release is the store's.
func (t *tracedStore) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	ctx, span := t.start(ctx, "release", charges)
	err := t.Store.Release(ctx, id, charges)
	finish(span, err)
	return err
}

// Reset is the store's.
func (t *tracedStore) Reset(ctx context.Context, charges []tidegate.Charge) error {
	ctx, span := t.start(ctx, "reset", charges)
	err := t.Store.Reset(ctx, charges)
	finish(span, err)
	return err
}

// Now is the store's.
func (t *tracedStore) Now(ctx context.Context) (time.Time, error) {
	ctx, span := t.start(ctx, "now", nil)
	now, err := t.Store.Now(ctx)
	finish(span, err)
	return now, err
}

// traced makes a span of each request, below the one that the client names in traceparent. Probes and scrapes are left out.
// The span tells the route and not the path, nor the client's address: either may be a key.
func (s *Server) traced(next http.Handler) http.Handler {
	if s.cfg.Traces == nil {
		return next
	}
	tracer := s.cfg.Traces.Tracer(tracerName)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/metrics":
			next.ServeHTTP(w, r)
			return
		}
		method := knownMethod(r.Method)
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", method)))
		defer span.End()
		r = r.WithContext(ctx)
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		if !span.IsRecording() {
			return
		}
		route := r.Pattern // which the mux has set meanwhile
		if _, path, ok := strings.Cut(route, " "); ok {
			route = path
		}
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", seen.status))
		if seen.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// knownMethod keeps what clients make up out of the names of spans.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "_OTHER"
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader is the writer's.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Flush is for answers that are sent in parts.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() } // there is no other way to send it

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
