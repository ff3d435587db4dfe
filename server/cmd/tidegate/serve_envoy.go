package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate-go/tidegate/server"
	"github.com/tidegate-go/tidegate/server/internal/envoy"
	"github.com/tidegate-go/tidegate/server/internal/grpcserver"
)

// healthName is the service that proxies ask for the health of.
const healthName = "ratelimit"

// envoyFlags are the flags of serve that are about proxies.
type envoyFlags struct {
	grpc     string
	tls      grpcserver.TLSFiles
	age      time.Duration
	ageGrace time.Duration

	dir       string
	options   envoy.Options
	metrics   bool
	headers   bool
	metadata  bool
	shadow    bool
	quota     bool
	discovery string
}

func (f *envoyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.grpc, "grpc", "", "address to answer Envoy's rate limit service and stores of other services on, such as :8081 or unix:/run/tidegate.sock (default off)")
	flags.StringVar(&f.tls.Cert, "grpc-tls-cert", "", "file of the certificate for --grpc; it is read again when it changes")
	flags.StringVar(&f.tls.Key, "grpc-tls-key", "", "file of its key")
	flags.StringVar(&f.tls.ClientCA, "grpc-client-ca", "", "file of the certificates that clients of --grpc must be signed by (default none is asked for)")
	flags.StringVar(&f.tls.ClientName, "grpc-client-name", "", "DNS name that a client's certificate must have (default any)")
	flags.DurationVar(&f.age, "grpc-max-connection-age", 24*time.Hour, "how old a connection gets before its client is asked for a new one")
	flags.DurationVar(&f.ageGrace, "grpc-max-connection-age-grace", time.Hour, "how long it may then finish its requests")
	flags.StringVar(&f.dir, "envoy-config", "", "directory of YAML files of envoyproxy/ratelimit; changes are followed")
	flags.StringVar(&f.options.Algorithm, "envoy-algorithm", envoy.Algorithms()[0], "how their limits count: "+strings.Join(envoy.Algorithms(), ", "))
	flags.BoolVar(&f.options.Merge, "envoy-merge-domains", false, "let several files speak of one domain, as MERGE_DOMAIN_CONFIG does")
	flags.BoolVar(&f.metrics, "envoy-metrics", false, "count under the names of envoyproxy/ratelimit too, at /metrics")
	flags.BoolVar(&f.headers, "envoy-headers", false, "add RateLimit-Limit, -Remaining and -Reset to answers, as LIMIT_RESPONSE_HEADERS_ENABLED does")
	flags.BoolVar(&f.metadata, "envoy-dynamic-metadata", false, "add dynamic metadata to answers, as RESPONSE_DYNAMIC_METADATA does")
	flags.BoolVar(&f.shadow, "envoy-shadow", false, "let everything pass and count, as SHADOW_MODE does")
	flags.BoolVar(&f.quota, "envoy-quota", false, "treat all limits as ones in quota mode, as QUOTA_MODE does")
	flags.StringVar(&f.discovery, "envoy-xds", "", "not yet: limits from an xDS server; use --envoy-config")
	complete(cmd, "envoy-algorithm", envoy.Algorithms()...)
	for _, name := range []string{"grpc-tls-cert", "grpc-tls-key", "grpc-client-ca"} {
		if err := cmd.MarkFlagFilename(name); err != nil {
			panic(err) // the flag does not exist: a slip in this program
		}
	}
	if err := cmd.MarkFlagDirname("envoy-config"); err != nil {
		panic(err)
	}
}

// check refuses what cannot be meant. The token is empty where there is none.
func (f *envoyFlags) check(token string) error {
	switch {
	case f.discovery != "":
		return errors.New("--envoy-xds: limits cannot come from an xDS server yet: write them into files and name the directory with --envoy-config")
	case f.grpc != "" && f.dir == "" && token == "":
		return errors.New("--grpc has nothing to answer: name the directory of Envoy's limits with --envoy-config, " +
			"or give the token that stores of other services need, with --token-file")
	case f.dir == "" && (f.metrics || f.headers || f.metadata || f.shadow || f.quota || f.options.Merge):
		return errors.New("the flags --envoy-… need limits: name their directory with --envoy-config")
	case f.grpc == "" && f.tls != (grpcserver.TLSFiles{}):
		return errors.New("--grpc-tls-cert and the like need an address to listen on: give --grpc")
	case f.age < 0 || f.ageGrace < 0:
		return fmt.Errorf("--grpc-max-connection-age is %v and its grace %v: neither must be negative; 0 is no bound", f.age, f.ageGrace)
	}
	return nil
}

// proxies is what answers proxies, and stores of other services, beside the HTTP API.
type proxies struct {
	source   *envoy.Source // nil without limits
	grpc     *grpcserver.Server
	listener net.Listener
}

// open makes what the flags ask for, on the store of the server; nil if they ask for nothing. What is wrong with the files
// is told to the log, and keeps the server from being ready, not from starting.
func (f *envoyFlags) open(ctx context.Context, s *server.Server, store *servedStore, cfg *server.Config) (*proxies, error) {
	if f.dir == "" && f.grpc == "" {
		return nil, nil //nolint:nilnil // nothing is asked for
	}
	p := &proxies{}
	var err error
	if f.grpc != "" {
		if p.grpc, err = f.server(cfg); err != nil {
			return nil, err
		}
		if err = registerStore(p.grpc, s, store, cfg.Token); err != nil {
			return nil, err
		}
	}
	if f.dir != "" {
		if err = f.follow(p, s, cfg); err != nil {
			return nil, err
		}
	}
	if err = registerProxies(s, p); err != nil {
		p.close()
		return nil, err
	}
	if p.grpc != nil {
		if p.listener, err = grpcserver.Listen(ctx, f.grpc); err != nil {
			return nil, notListening("grpc", f.grpc, err)
		}
	}
	return p, nil
}

// follow answers proxies by the limits of the directory.
func (f *envoyFlags) follow(p *proxies, s *server.Server, cfg *server.Config) error {
	var metrics *envoy.Metrics
	if f.metrics {
		metrics = envoy.NewMetrics()
		if err := s.Register(metrics); err != nil {
			return err
		}
	}
	service, err := envoy.NewService(envoy.ServiceConfig{
		Store: s.Store(), Headers: f.headers, DynamicMetadata: f.metadata, Shadow: f.shadow, Quota: f.quota,
		Metrics: metrics, Decided: s.Decided, Counted: s.CountRule,
	})
	if err != nil {
		return err
	}
	set := service.Set
	if p.grpc != nil {
		service.Register(p.grpc)
		p.grpc.SetServing(healthName, false)
		set = func(c *envoy.Config) {
			service.Set(c)
			p.grpc.SetServing(healthName, true)
		}
	}
	p.source, err = envoy.NewSource(envoy.SourceConfig{Dir: f.dir, Options: f.options, Set: set, Metrics: metrics, Logger: cfg.Logger})
	if err != nil {
		return fmt.Errorf("--envoy-config: %w", err)
	}
	_ = p.source.Load() // it was logged
	s.Mount("POST", "/json", service.JSON(s.Authorized))
	s.ReadyWhen(func() string {
		if service.Ready() {
			return ""
		}
		return "no limits could be loaded from " + f.dir + " yet"
	})
	return nil
}

// server makes the gRPC server.
func (f *envoyFlags) server(cfg *server.Config) (*grpcserver.Server, error) {
	secured, err := f.tls.Config()
	if err != nil {
		return nil, fmt.Errorf("--grpc-tls-cert, --grpc-tls-key, --grpc-client-ca: %w", err)
	}
	age := f.age
	if age == 0 {
		age = -1
	}
	return grpcserver.New(&grpcserver.Config{
		TLS: secured, MaxConnectionAge: age, MaxConnectionAgeGrace: f.ageGrace,
		ShutdownDelay: cfg.ShutdownDelay, DrainTime: cfg.DrainTime, Traces: cfg.Traces, Logger: cfg.Logger,
		Codec: envoy.Codec(),
	})
}

func (p *proxies) close() {
	if p != nil && p.listener != nil {
		_ = p.listener.Close()
	}
}

// serve answers proxies until the context ends, while with runs beside it; where one of them fails, both end.
func (p *proxies) serve(ctx context.Context, with func(context.Context) error) error {
	if p == nil {
		return with(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	if p.source != nil {
		wg.Go(func() { p.source.Run(ctx) })
	}
	var failed error
	if p.grpc != nil {
		// The heap of a service that keeps its buckets elsewhere is so small that a tenth of all work is collecting garbage
		// again and again. This much that is never written to, and so takes no memory, lets it be collected more rarely, but not so
		// rarely that what is used in turn is more than the caches of a processor hold: with 64 MiB it is a twelfth slower.
		ballast := make([]byte, 8<<20)
		defer runtime.KeepAlive(ballast)
		wg.Go(func() {
			defer cancel()
			failed = p.grpc.Serve(ctx, p.listener)
		})
	}
	err := with(ctx)
	cancel()
	wg.Wait()
	return errors.Join(err, failed)
}

// said is what the line at the start says of proxies.
func (p *proxies) said() string {
	if p == nil || p.listener == nil {
		return ""
	}
	a := p.listener.Addr()
	if a.Network() == "unix" {
		return " and for gRPC on unix:" + a.String()
	}
	return " and for gRPC on " + a.String()
}
