package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // a type that the file names
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // the same
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestEnvoyExample reads the example as Envoy does, field by field, and holds it to a domain and a cluster that exist.
func TestEnvoyExample(t *testing.T) {
	asJSON, err := json.Marshal(documents(t, "envoy/envoy.yaml")[0])
	must(t, err)
	var config bootstrapv3.Bootstrap
	must(t, protojson.Unmarshal(asJSON, &config)) // it takes no field that it does not know
	must(t, config.ValidateAll())

	var manager managerv3.HttpConnectionManager
	must(t, config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager))
	must(t, manager.ValidateAll())
	var filter filterv3.RateLimit
	must(t, manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&filter))
	must(t, filter.ValidateAll())

	asked := filter.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName()
	if !slices.ContainsFunc(config.GetStaticResources().GetClusters(), func(c *clusterv3.Cluster) bool { return c.GetName() == asked }) {
		t.Errorf("the filter asks the cluster %q, which is not there", asked)
	}
	domain := documents(t, "envoy/limits/edge.yaml")[0]["domain"]
	if filter.GetDomain() != domain {
		t.Errorf("the filter asks about the domain %q, and the limits are of %q", filter.GetDomain(), domain)
	}
}

// TestEnvoyLimits asks a service with the example's limits what Envoy would ask: the sixth login in a minute is refused.
func TestEnvoyLimits(t *testing.T) {
	s := serve(t, "--grpc", "127.0.0.1:0", "--envoy-config", filepath.Join(deployDir, "envoy", "limits"))
	text, _ := s.stderr.text()
	conn, err := grpc.NewClient(regexp.MustCompile(`gRPC on (\S+)`).FindStringSubmatch(text)[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	ask := func(pairs ...string) *ratelimitv3.RateLimitResponse {
		t.Helper()
		var d commonv3.RateLimitDescriptor
		for i := 0; i < len(pairs); i += 2 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		resp, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
			Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{&d},
		})
		must(t, err)
		return resp
	}
	for _, c := range []struct {
		limit uint32
		pairs []string
	}{
		{5, []string{"route", "login", "remote_address", "192.0.2.1"}},
		{50, []string{"remote_address", "192.0.2.1"}},
		{200, []string{"tenant", "other"}},
		{300, []string{"tenant", "other", "user", "u"}},
		{2000, []string{"tenant", "acme"}},
		{3000, []string{"tenant", "acme", "user", "u"}},
	} {
		if got := ask(c.pairs...).GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != c.limit {
			t.Errorf("%v has a limit of %d, want %d", c.pairs, got, c.limit)
		}
	}
	refused := 0
	for range 12 { // two minutes' worth at most, were a minute to end meanwhile
		if ask("route", "login", "remote_address", "192.0.2.2").GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT {
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("of 12 logins %d were refused", refused)
	}
}
