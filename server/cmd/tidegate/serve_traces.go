package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	apitrace "go.opentelemetry.io/otel/trace"
)

const (
	// tracesFlushTime bounds how long the end of the service waits for the last spans to be taken.
	tracesFlushTime = 2 * time.Second
	// tracesComplaints is how often the log may say that spans could not be sent.
	tracesComplaints = time.Minute
)

// The protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// traceFlags are the flags of serve that are about spans.
type traceFlags struct {
	endpoint string
}

func (f *traceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.endpoint, "otlp-endpoint", "",
		"URL to send OpenTelemetry spans to, such as http://localhost:4318 or grpc://localhost:4317 (default $OTEL_EXPORTER_OTLP_ENDPOINT, else none are made)")
}

// traces is what makes spans; nil where none are made.
type traces struct {
	sdk *trace.TracerProvider
}

// open makes what sends spans, if the flag or the environment asks for it. No collector has to be there: what cannot be
// sent is dropped, and told to the log.
func (f *traceFlags) open(ctx context.Context, log *slog.Logger) (*traces, error) {
	if !f.wanted() {
		return nil, nil //nolint:nilnil // nothing is asked for
	}
	exporter, err := f.exporter(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "tidegate"), attribute.String("service.version", buildVersion().Version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // which goes before the above
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: log})
	return &traces{trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))}, nil
}

// wanted reports whether spans are asked for. The flag goes before what the environment says.
func (f *traceFlags) wanted() bool {
	switch {
	case f.endpoint != "":
		return true
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return false
	}
	return os.Getenv("OTEL_TRACES_EXPORTER") == "otlp" ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// exporter sends spans to the endpoint. What the flag does not say, such as headers and certificates, is as the variables
// OTEL_EXPORTER_OTLP_… have it.
func (f *traceFlags) exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if f.endpoint == "" {
		switch protocol {
		case protocolGRPC:
			return otlptracegrpc.New(ctx)
		case "", protocolHTTP:
			return otlptracehttp.New(ctx)
		}
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: write %s or %s", protocol, protocolGRPC, protocolHTTP)
	}
	u, err := url.Parse(f.endpoint)
	if err != nil || u.Host == "" {
		return nil, badEndpoint(f.endpoint)
	}
	switch u.Scheme {
	case "grpc", "grpcs":
		u.Scheme = strings.Replace(u.Scheme, "grpc", "http", 1)
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(u.String()))
	case "http", "https":
		if protocol == protocolGRPC {
			return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(u.String()))
		}
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
	}
	return nil, badEndpoint(f.endpoint)
}

func badEndpoint(endpoint string) error {
	return fmt.Errorf("--otlp-endpoint is %q: write http://HOST:PORT or grpc://HOST:PORT, or with https or grpcs for TLS", endpoint)
}

// provider is what makes the spans, nil for none.
func (t *traces) provider() apitrace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.sdk
}

// close sends what is left, within bounds.
func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracesFlushTime)
	defer cancel()
	_ = t.sdk.Shutdown(ctx) // what is not taken by now is lost, and the log has said why
}

// complaints logs what fails as spans are sent, a line a minute: a collector that is away is not worth more.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements [otel.ErrorHandler].
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= tracesComplaints {
		c.last = now
		c.log.Warn("spans could not be sent", slog.Any("error", err))
	}
}
