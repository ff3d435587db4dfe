package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate/server"
)

// registerProxies adds to /metrics what is told of proxies, under whatever names their limits are counted.
func registerProxies(s *server.Server, p *proxies) error {
	stale := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_envoy_config_stale",
		Help: "1 while the files of --envoy-config are bad or cannot be read, and the limits before stay; else 0.",
	}, func() float64 {
		if p.source != nil && p.source.Problem() != "" {
			return 1
		}
		return 0
	})
	if err := s.Register(stale); err != nil {
		return err
	}
	if p.grpc == nil {
		return nil
	}
	return s.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_grpc_requests_rejected_total",
		Help: "Requests over gRPC that were answered UNAVAILABLE because too many ran at once.",
	}, func() float64 { return float64(p.grpc.Rejected()) }))
}
