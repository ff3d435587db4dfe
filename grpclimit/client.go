package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/tidegate-go/tidegate"
)

// ClientConfig says how a [Client] works. The zero ClientConfig, like a nil one, is the documented default.
//
// Its functions are called for every call, from many goroutines at once.
type ClientConfig struct {
	// Cost is what a call costs; one of 0 or less lets it pass without a charge. A stream is charged when it starts.
	// Default: 1.
	Cost func(*Call) int64
	// SendCost is what a message costs that is sent on a stream, besides the stream itself. It is charged before it is sent.
	// A refusal is what SendMsg returns, and ends the stream. Default: nothing.
	SendCost func(*Call) int64
	// ReceiveCost is what a message costs that is received on a stream. It is charged when it has arrived, before the caller
	// gets it, so that where MaxWait lets it wait, the server is slowed down. A refusal is what RecvMsg returns, and ends the
	// stream. Default: nothing.
	ReceiveCost func(*Call) int64
	// Skip lets a call pass as if there were no limit: no charge, no permit, nothing that the server said obeyed.
	// Default: none.
	Skip func(*Call) bool
	// Attribute returns attributes of your own. It is asked first for every name, also for those that a [Call] has; its false
	// leaves the name to the call. Default: none.
	Attribute func(c *Call, name string) (value string, ok bool)
	// Permits limits the calls in flight: a limiter of permits, such as "20 concurrent". A call holds one until it has
	// ended, by whatever end; it is renewed as long as that takes. One that finds none is refused, and charged nothing. Rules of
	// permits in an engine that is the decider are kept in the same way, without this.
	// Default: none.
	Permits *tidegate.Limiter
	// PermitsBy is the attribute by which permits are counted, such as "target". Default: none, all calls together.
	PermitsBy string
	// MaxWait is how long a call or message may wait for its turn; one for which that, or what its context leaves, is too
	// short is refused at once. Turns come in order, across replicas, under a [tidegate.Holder], as limiters and engines are; of
	// sliding logs and of an engine's permits, and under other deciders, who asks when there is room passes. Those of Permits are not
	// waited for, nor does it bound the queue of a leaky bucket.
	// Default: 0, none waits.
	MaxWait time.Duration
	// MaxWaiting is how many may so wait at once; one more is refused at once. Default: 100.
	MaxWaiting int64
	// FailOpen lets calls pass for which no decision could be made, since the store failed and nothing stands in for it.
	// Default: false, they are refused with UNAVAILABLE. Rules with a policy decide by that instead, and either way.
	FailOpen bool
	// IgnorePushback makes calls although the server has said, in the RetryInfo of an answer, when it can be of use again.
	// Default: false: until then, further calls of the method wait, as far as MaxWait lets them, or are refused here.
	IgnorePushback bool
	// PushbackBy is the attribute of calls that what the server says holds for, besides its target and method, where it limits by
	// one: without it, the limit of one user of this client stops the calls of all. Default: none.
	PushbackBy string
	// MaxPushback is the longest that a server is obeyed from its answer on, so that a mistake of its cannot silence a client.
	// Default: 1 min.
	MaxPushback time.Duration
	// Logger is told when no decision can be made, and of attributes that can never be there, never of single calls.
	// Default: nobody is.
	Logger *slog.Logger
}

// A Client is the interceptors of a client's connections. It limits calls, not the attempts that gRPC makes of one when it
// retries. It is safe for concurrent use; create it with [NewClient].
type Client struct {
	gate     gate
	pushback *pushbacks // nil where it is ignored
}

// NewClient returns interceptors that make calls as the decider says. A nil config is the default.
// The error says what is wrong with the config.
//
// A [tidegate.Limiter] goes by the attribute "ip" unless its KeyBy is set, and a client's call has none: "target" keeps a
// limit for each server.
func NewClient(decider tidegate.Decider, cfg *ClientConfig) (*Client, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	c := &Client{
		gate: gate{
			decider:    decider,
			cost:       cfg.Cost,
			skip:       cfg.Skip,
			receive:    cfg.ReceiveCost,
			send:       cfg.SendCost,
			attribute:  cfg.Attribute,
			permits:    permits{limiter: cfg.Permits, by: cfg.PermitsBy},
			maxWait:    cfg.MaxWait,
			maxWaiting: cfg.MaxWaiting,
			failOpen:   cfg.FailOpen,
			log:        cfg.Logger,
		},
	}
	err := c.gate.check()
	if cfg.MaxPushback < 0 {
		err = errors.Join(err, fmt.Errorf("grpclimit: MaxPushback is %v: it must not be negative; 0 is the default of %v, and IgnorePushback ignores the server",
			cfg.MaxPushback, defaultMaxPushback))
	}
	if cfg.IgnorePushback && (cfg.PushbackBy != "" || cfg.MaxPushback != 0) {
		err = errors.Join(err, errors.New("grpclimit: IgnorePushback leaves PushbackBy and MaxPushback without a meaning: set it, or them"))
	}
	if err != nil {
		return nil, err
	}
	if !cfg.IgnorePushback {
		c.pushback = newPushbacks(cfg.PushbackBy, cfg.MaxPushback)
	}
	return c, nil
}

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Client) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	call := &Call{gate: &c.gate, ctx: ctx, method: method, target: target(cc), message: req, client: true}
	if c.gate.skip != nil && c.gate.skip(call) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	permit, err := c.admit(call)
	defer permit.release()
	if err != nil {
		return err
	}
	err = invoker(ctx, method, req, reply, cc, opts...)
	c.pushback.observe(call, err)
	return err
}

// admit waits until the server may be asked again and takes a permit, which the caller releases, and charges the call.
func (c *Client) admit(call *Call) (*held, error) {
	w := wait{gate: &c.gate}
	defer w.end()
	if err := c.pushback.pass(call, &w); err != nil {
		return nil, err
	}
	return c.gate.admit(call, &w)
}

// target is empty for a connection that is not there, as in a test that calls the interceptor.
func target(cc *grpc.ClientConn) string {
	if cc == nil {
		return ""
	}
	return cc.Target()
}

// Close returns when what is being given back to the store has been, which for each call takes a second at most. It changes nothing
// else: call it when all calls are over and before the program ends, so that no permit is left to expire.
func (c *Client) Close() error {
	c.gate.returns.Wait(releaseTimeout)
	return nil
}
