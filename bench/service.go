package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The service beside peers that are services too: each is a process of its own, started with the same Redis, asked over gRPC
// by the same client. Ours and the first peer are asked the same bytes; gubernator, which keeps its counts in its own
// memory, is asked as many limits in its own protocol.

const (
	serviceDomain  = "bench"
	serviceKeys    = 1000 // values of each descriptor
	serviceCallers = 64
	ratelimitAt    = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"
	gubernatorAt   = "github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0"
	tidegateAt     = "github.com/tidegate-go/tidegate/server/cmd/tidegate"
)

// serviceWorkloads are 64 callers who ask for one descriptor, and for ten. Programs are installed into the directory when
// they are first needed.
func serviceWorkloads(redis, dir string) []workload {
	var ws []workload
	for _, n := range []int{1, len(descriptors)} {
		w := workload{
			name:    fmt.Sprintf("service, %d callers, %d descriptors", serviceCallers, n),
			id:      fmt.Sprintf("Service/callers=%d/descriptors=%d", serviceCallers, n),
			callers: serviceCallers, optional: true,
		}
		add := func(name string, p program) {
			w.contenders = append(w.contenders, contender{name, func(ctx context.Context) (func(context.Context, int, int) error, func(), error) {
				return p.open(ctx, dir, n)
			}})
		}
		add("tidegate", tidegateServe(redis, ""))
		add("envoyproxy/ratelimit", ratelimitServe(redis, ""))
		add("envoyproxy/ratelimit, pipelined", ratelimitServe(redis, "150us"))
		add("gubernator", gubernatorServe())
		add("tidegate, token-bucket", tidegateServe(redis, "token-bucket"))
		ws = append(ws, w)
	}
	return ws
}

// tidegateServe is ours, as it is built from this tree.
func tidegateServe(redis, algorithm string) program {
	return program{
		install: func(ctx context.Context, dir string) (string, error) {
			path := filepath.Join(dir, "tidegate")
			return path, run1(ctx, nil, "go", "build", "-o", path, tidegateAt)
		},
		start: func(path, dir string, p *ports) (command, error) {
			if err := writeLimits(filepath.Join(dir, "limits")); err != nil {
				return command{}, err
			}
			// With its usual 50 ms it would decide without Redis whenever 64 callers leave it no processor for so long; the
			// others wait for ten seconds.
			args := []string{path, "serve", "--listen", p.address(0), "--grpc", p.address(1), "--store", "redis://" + redis,
				"--store-timeout", "10s", "--envoy-config", filepath.Join(dir, "limits")}
			if algorithm != "" {
				args = append(args, "--envoy-algorithm", algorithm)
			}
			return command{args: args, grpc: p.address(1), after: func(ctx context.Context) error { return decidedByStore(ctx, p.address(0)) }}, nil
		},
		ask: askRatelimit,
	}
}

// decidedByStore reports, from what ours tells of itself, whether any decision was made without the store.
func decidedByStore(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if l := lines.Text(); strings.HasPrefix(l, "tidegate_decisions_total{") && strings.Contains(l, `source="fallback"`) {
			return fmt.Errorf("not all decisions were the store's: %s", l)
		}
	}
	return lines.Err()
}

// ratelimitServe is envoyproxy/ratelimit with its defaults, but for what it would tell others of its statistics. With a
// window it waits so long for other requests to share a pipeline with, as its users do where there are many.
func ratelimitServe(redis, window string) program {
	return program{
		install: installed(ratelimitAt, "service_cmd"),
		start: func(path, dir string, p *ports) (command, error) {
			if err := writeLimits(filepath.Join(dir, "config")); err != nil {
				return command{}, err
			}
			env := []string{
				"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false",
				"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "USE_STATSD=false", "LOG_LEVEL=error",
				"HOST=127.0.0.1", "PORT=" + p.port(0), "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + p.port(1),
				"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + p.port(2),
			}
			if window != "" {
				env = append(env, "REDIS_PIPELINE_WINDOW="+window)
			}
			return command{args: []string{path}, env: env, grpc: p.address(1)}, nil
		},
		ask: askRatelimit,
	}
}

// gubernatorServe is gubernator on its own, without a cluster.
func gubernatorServe() program {
	return program{
		install: installed(gubernatorAt, "gubernator"),
		start: func(path, _ string, p *ports) (command, error) {
			return command{args: []string{path}, grpc: p.address(1), env: []string{
				"GUBER_HTTP_ADDRESS=" + p.address(0), "GUBER_GRPC_ADDRESS=" + p.address(1),
				"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_ADVERTISE_ADDRESS=" + p.address(1), // without a peer it answers nothing
				"GUBER_MEMBERLIST_ADDRESS=" + p.address(2), "GUBER_MEMBERLIST_KNOWN_NODES=" + p.address(2),
				"GUBER_MEMBERLIST_BIND_ADDRESS=" + p.address(2), "GUBER_INSTANCE_ID=bench", "GUBER_LOG_LEVEL=error",
				"OTEL_TRACES_EXPORTER=none",
			}}, nil
		},
		ask: askGubernator,
	}
}

// writeLimits writes the limits of ten descriptors that refuse nothing.
func writeLimits(dir string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", serviceDomain)
	for _, d := range descriptors {
		fmt.Fprintf(&b, "  - key: %s\n    rate_limit: {unit: hour, requests_per_unit: 4000000000}\n", d.key)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(b.String()), 0o600)
}

// descriptors are what a proxy asks for: the first of them alone, or all ten, from a value for each user to one for everybody.
var descriptors = [10]struct {
	key    string
	values int
}{
	{"user", 1000}, {"remote_address", 1000}, {"tenant", 100}, {"path", 50}, {"destination_cluster", 20},
	{"api_key_plan", 5}, {"method", 4}, {"source_cluster", 3}, {"zone", 2}, {"generic_key", 1},
}
