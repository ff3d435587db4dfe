package redisstore

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// unreached is a connection that could not be made: whatever is done with it fails as dialing did.
//
// The client's pool counts dials that fail. When as many have as it has connections, it dials no more than once a second
// and fails all else without trying, so that a server that is back would be missed for so long; and it logs each. Who asks
// a server that is away is the callers' breaker's to say, so the pool gets a connection, and the error from that.
type unreached struct {
	net.Conn // an end of a pipe, for all that is not the point
	err      error
}

// Read fails as dialing did.
func (c unreached) Read([]byte) (int, error) { return 0, c.err }

// Write fails as dialing did.
func (c unreached) Write([]byte) (int, error) { return 0, c.err }

// undaunted makes a client whose failures to dial are told by the connection. It takes the options over.
func undaunted(o *redis.Options) *redis.Client {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(o)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			end, _ := net.Pipe()
			return unreached{end, err}, nil //nolint:nilerr // see above
		}
		return c, nil
	}
	return redis.NewClient(o)
}
