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
	o.Dialer = unfailing(dial)
	return redis.NewClient(o)
}

// undauntedFailover does the same for a client that asks sentinels where to dial, and for its connections to these, which are
// dialed as the servers' are.
func undauntedFailover(o *redis.FailoverOptions) *redis.Client {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = unfailing(dial)
	c := redis.NewFailoverClient(o)
	c.AddHook(unfailingHook{})
	return c
}

// unfailingHook tells by the connection that no sentinel said where to dial.
type unfailingHook struct{}

// DialHook makes no dial fail.
func (unfailingHook) DialHook(next redis.DialHook) redis.DialHook {
	return redis.DialHook(unfailing(dialer(next)))
}

// ProcessHook leaves commands alone.
func (unfailingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves pipelines alone.
func (unfailingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func unfailing(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			end, _ := net.Pipe()
			return unreached{end, err}, nil //nolint:nilerr // see above
		}
		return c, nil
	}
}
