package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
)

// TestEachCallDials: a server that is away is tried by each call, however many have failed, so that one that is back is not
// missed for a second.
func TestEachCallDials(t *testing.T) {
	var dials atomic.Int64
	refuse := func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	for name, client := range map[string]redis.UniversalClient{
		"one server": redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", PoolSize: 2, Dialer: refuse}),
	} {
		s := storeOn(t, client, nil)
		for i := range 10 {
			dials.Store(0)
			_, err := s.Take(context.Background(), []tidegate.Charge{newCharge(t, "api", "k", "10/h", 1)}, nil)
			if !errors.Is(err, syscall.ECONNREFUSED) || dials.Load() != 1 {
				t.Errorf("%s: call %d dialed %d times: %v", name, i, dials.Load(), err)
			}
		}
	}
}
