package remotestore

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// A server that is back is found within about so long, and not after the two minutes to which gRPC's waits grow.
	longestWait = time.Second
	// A connection on which calls are under way and nothing comes is asked for a sign of life after pingAfter, the shortest
	// that gRPC allows, and given up pingTimeout later. One that lies idle is left alone.
	pingAfter   = 10 * time.Second
	pingTimeout = 2 * time.Second
	// connectTime bounds an attempt to connect, so that one into the void does not hold up the next.
	connectTime = 2 * time.Second
)

// target is an address as gRPC wants it.
func target(address string) (string, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" || path == "//" {
			return "", fmt.Errorf("remotestore: the address %q names no file: write for example unix:/run/tidegate.sock", address)
		}
		return address, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(host, "/ @") {
		return "", fmt.Errorf("remotestore: the address %q: write host:port, as in tidegate.internal:8081, or unix:/run/tidegate.sock", address)
	}
	return "dns:///" + address, nil
}

// dial makes a connection that connects when it is used. Calls are made again where they cannot have run, which gRPC knows, and
// never by a policy that the name service hands out.
func dial(address string, secured *tls.Config) (*grpc.ClientConn, error) {
	name, err := target(address)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if secured != nil {
		creds = credentials.NewTLS(secured.Clone())
	}
	conn, err := grpc.NewClient(name,
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestWait},
			MinConnectTimeout: connectTime,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithUserAgent("tidegate-remotestore"),
	)
	if err != nil {
		return nil, fmt.Errorf("remotestore: the address %q: %w", address, err)
	}
	return conn, nil
}
